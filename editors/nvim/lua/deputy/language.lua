--- Queries to the editor's language servers for agents: diagnostics, locations, symbols. Each runs in a coroutine and
--- returns within a time limit, with the results available by then.

local M = {}

--- Time limit for language servers in milliseconds; Deputy's own limit is slightly longer.
M.patience = 9000
--- Milliseconds to wait for diagnostics of further language servers after the first.
M.following = 100

local FILE_START = { start = { line = 0, character = 0 }, ['end'] = { line = 0, character = 0 } }

-- -- waiting ----------------------------------------------------------------------------------------------------

--- Runs `begin` with a function that ends the wait; returns when it is called or the time limit is reached.
local function wait(milliseconds, begin)
  local thread = coroutine.running()
  local over, yielded = false, false
  local function finish()
    if not over then
      over = true
      if yielded then
        coroutine.resume(thread)
      end
    end
  end
  begin(finish)
  if not over then
    yielded = true
    vim.defer_fn(finish, milliseconds)
    coroutine.yield()
  end
end

-- -- language servers -------------------------------------------------------------------------------------------

local function is_own(client)
  return client.name == require('deputy.client').NAME
end

--- The loaded buffer of a file.
local function loaded(path)
  local buf = vim.fn.bufnr('^' .. vim.fn.fnameescape(path) .. '$')
  return buf ~= -1 and vim.api.nvim_buf_is_loaded(buf) and buf or nil
end

--- Language servers for the file at `path`, which need not be open; without a path, all.
local function servers(method, path)
  local buf = path and loaded(path)
  local filetype = path and not buf and vim.filetype.match({ filename = path })
  return vim
    .iter(vim.lsp.get_clients({ bufnr = buf, method = method }))
    :filter(function(client)
      local suits = not path or buf or (filetype and vim.list_contains(client.config.filetypes or {}, filetype))
      return suits and not is_own(client)
    end)
    :totable()
end

--- Responses of `servers`, in order, without those that fail or are late.
local function ask(method, path, params_for)
  local answers, clients = {}, servers(method, path)
  local left = #clients
  if left == 0 then
    return {}
  end
  wait(M.patience, function(finish)
    for index, client in ipairs(clients) do
      local function take(_, result)
        answers[index] = result
        left = left - 1
        if left == 0 then
          finish()
        end
      end
      if not client:request(method, params_for(client), take, path and loaded(path) or nil) then
        take()
      end
    end
  end)
  local found = {}
  for index = 1, #clients do
    table.insert(found, answers[index])
  end
  return found
end

-- -- locations --------------------------------------------------------------------------------------------------

local function line_of(path, row)
  local buf = loaded(path)
  if buf then
    return vim.api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
  end
  local read, lines = pcall(vim.fn.readfile, path, '', row + 1)
  return read and lines[row + 1] or ''
end

--- Converts a position to the offset encoding of another client.
local function position(path, at, from, to)
  if from == to then
    return at
  end
  local line = line_of(path, at.line)
  local byte = vim.str_byteindex(line, from, at.character, false)
  return { line = at.line, character = vim.str_utfindex(line, to, byte, false) }
end

local function about(params, own, further)
  local path = vim.uri_to_fname(params.uri)
  return path,
    function(client)
      local at = position(path, params.position, own.offset_encoding, client.offset_encoding)
      return vim.tbl_extend('error', { textDocument = { uri = params.uri }, position = at }, further or {})
    end
end

local function spots(answers)
  local items = {}
  for _, answer in ipairs(answers) do
    for _, one in ipairs(vim.islist(answer) and answer or { answer }) do
      table.insert(
        items,
        { uri = one.uri or one.targetUri, range = one.range or one.targetSelectionRange or FILE_START }
      )
    end
  end
  return { items = items }
end

function M.definition(params, own)
  return spots(ask('textDocument/definition', about(params, own)))
end

function M.references(params, own)
  return spots(ask('textDocument/references', about(params, own, { context = { includeDeclaration = true } })))
end

function M.hover(params, own)
  local lines = {}
  for _, answer in ipairs(ask('textDocument/hover', about(params, own))) do
    vim.list_extend(lines, vim.lsp.util.convert_input_to_markdown_lines(answer.contents))
  end
  return { text = #lines > 0 and table.concat(lines, '\n') or nil }
end

-- -- symbols ----------------------------------------------------------------------------------------------------

local function add_symbols(items, found, uri, container)
  for _, one in ipairs(found) do
    local location = one.location or {}
    table.insert(items, {
      name = one.name,
      kind = one.kind,
      container = one.containerName or container,
      uri = location.uri or uri,
      range = one.selectionRange or location.range or FILE_START,
    })
    add_symbols(items, one.children or {}, uri, one.name)
  end
end

function M.symbols(params)
  local answers
  if params.uri then
    local path = vim.uri_to_fname(params.uri)
    answers = ask('textDocument/documentSymbol', path, function()
      return { textDocument = { uri = params.uri } }
    end)
  else
    answers = ask('workspace/symbol', nil, function()
      return { query = params.query }
    end)
  end
  local items = {}
  for _, answer in ipairs(answers) do
    add_symbols(items, answer, params.uri)
  end
  return { items = items }
end

-- -- diagnostics ------------------------------------------------------------------------------------------------

local function diagnostic(found)
  local shown = {
    range = {
      start = { line = found.lnum, character = found.col },
      ['end'] = { line = found.end_lnum or found.lnum, character = found.end_col or found.col },
    },
    severity = found.severity,
    message = found.message,
    source = found.source,
    code = found.code,
  }
  return vim.tbl_get(found, 'user_data', 'lsp') or shown
end

--- Waits until language servers have checked the new text of these files, if any watch them.
local function await_diagnostics(seconds, uris)
  local watched = {}
  for _, uri in ipairs(uris) do
    local buf = loaded(vim.uri_to_fname(uri))
    local others = buf
      and vim.iter(vim.lsp.get_clients({ bufnr = buf })):any(function(client)
        return not is_own(client)
      end)
    if others then
      watched[buf] = true
    end
  end
  if next(watched) == nil then
    return
  end
  local command
  wait(seconds * 1000, function(finish)
    command = vim.api.nvim_create_autocmd('DiagnosticChanged', {
      callback = function(event)
        if watched[event.buf] then
          vim.defer_fn(finish, M.following)
        end
      end,
    })
  end)
  vim.api.nvim_del_autocmd(command)
end

function M.diagnostics(params)
  if params.wait and params.uris then
    await_diagnostics(params.wait, params.uris)
  end
  local wanted = params.uris
    and vim.iter(params.uris):fold({}, function(set, uri)
      set[vim.fs.normalize(vim.uri_to_fname(uri))] = true
      return set
    end)
  local by_uri = {}
  for _, found in ipairs(vim.diagnostic.get()) do
    local name = vim.api.nvim_buf_is_loaded(found.bufnr) and vim.api.nvim_buf_get_name(found.bufnr) or ''
    if name ~= '' and (not wanted or wanted[vim.fs.normalize(name)]) then
      local uri = vim.uri_from_fname(name)
      by_uri[uri] = by_uri[uri] or {}
      table.insert(by_uri[uri], diagnostic(found))
    end
  end
  local items = {}
  for uri, diagnostics in pairs(by_uri) do
    table.insert(items, { uri = uri, diagnostics = diagnostics })
  end
  return { items = items }
end

return M
