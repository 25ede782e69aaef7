--- The language server: found, started, told of buffers, asked. All calls return at once.

local config = require('deputy.config')
local server = require('deputy.server')
local text = require('deputy.text')

local M = {}

M.NAME = 'deputy'
--- Code of the error that stands for a server that could not be asked.
M.NO_SERVER = 0
--- Code of the error that stands for a server that went before it answered.
M.LOST = -1

---@type integer?
local client_id
local waiting = {} ---@type (fun(client: vim.lsp.Client?))[]
local asked = {} ---@type table<fun(error: lsp.ResponseError?, result: any), true> what waits for an answer
local stopping = false

--- What the rest of the plugin does when something comes from the server.
M.on_event = function(_) end ---@type fun(event: table)
M.on_question = function(_) end ---@type fun(question: deputy.PermissionRequest)
M.on_notice = function(_) end ---@type fun(words: string)
M.on_ready = function() end
M.on_gone = function(_) end ---@type fun(unexpected: boolean)
M.on_failure = function(_) end ---@type fun(words: string) when there is no server where one is wanted

--- The folder that agents work in: that of the running server, else the project of the current file.
---@return string
function M.root()
  local client = M.get()
  if client then
    return client.root_dir
  end
  return vim.fs.root(0, config.options.root_markers) or vim.fn.getcwd()
end

---@return vim.lsp.Client?
function M.get()
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  return client and client.initialized and not client:is_stopped() and client or nil
end

local function capabilities()
  local all = vim.lsp.protocol.make_client_capabilities()
  -- Edits name the version that they were made for.
  all.workspace.workspaceEdit.documentChanges = true
  all.experimental = {
    deputy = {
      protocolVersion = 1,
      events = true,
      permissions = true,
      diffPreview = true,
      diagnostics = true,
      navigation = true,
    },
  }
  return all
end

-- -- what the server asks ---------------------------------------------------------------------------------------

local handlers = {}

handlers['deputy/event'] = function(_, event)
  M.on_event(event)
end

--- The question stays open until the user answers it by `deputy/permission/answer`, or it is settled elsewhere; only
--- then does this request end, with no choice of its own.
handlers['deputy/permission/request'] = function(_, question)
  local thread = coroutine.running()
  M.on_question(question, function()
    coroutine.resume(thread)
  end)
  coroutine.yield()
  return { outcome = { outcome = 'cancelled' } }
end

--- What the server says to the user is often longer than the message line: the session window shows it.
handlers['window/showMessage'] = function(_, params)
  M.on_notice(params.message)
  if params.type == vim.lsp.protocol.MessageType.Error then
    vim.notify('Deputy: ' .. text.one_line(params.message), vim.log.levels.ERROR)
  end
end

--- What agents ask of the editor's language servers.
for _, name in ipairs({ 'diagnostics', 'definition', 'references', 'hover', 'symbols' }) do
  handlers['deputy/editor/' .. name] = function(_, params, context)
    return require('deputy.language')[name](params, vim.lsp.get_client_by_id(context.client_id))
  end
end

handlers['workspace/applyEdit'] = function(...)
  return require('deputy.edits').apply(...)
end

-- -- life ------------------------------------------------------------------------------------------------------

local function told(client)
  local all = waiting
  waiting = {}
  for _, callback in ipairs(all) do
    callback(client)
  end
end

--- Ends what the server will answer no more.
local function lost()
  local all = asked
  asked = {}
  for answered in pairs(all) do
    answered({ code = M.LOST, message = 'the server has gone' })
  end
end

--- Buffers of files below the root are attached: agents then read what the user sees, and edits are undone as usual.
local function attach(buf)
  local client = M.get()
  if not client or not vim.api.nvim_buf_is_loaded(buf) or vim.bo[buf].buftype ~= '' then
    return
  end
  local name = vim.api.nvim_buf_get_name(buf)
  if name ~= '' and vim.fs.relpath(client.root_dir, name) then
    vim.lsp.buf_attach_client(buf, client.id)
  end
end

local function ready(client)
  vim.schedule(function()
    vim.iter(vim.api.nvim_list_bufs()):each(attach)
    M.on_ready()
    told(client)
  end)
end

--- There is no server, and the user is told why, once.
local function failed(words)
  M.on_failure(words)
  vim.notify('Deputy: ' .. words, vim.log.levels.ERROR)
end

local function gone(code, signal, id)
  -- One that was given up before is of no interest.
  if id ~= client_id then
    return
  end
  client_id = nil
  vim.schedule(function()
    told(nil)
    lost()
    local unexpected = not stopping
    stopping = false
    M.on_gone(unexpected)
    if unexpected then
      failed(
        ('the server ended (%s). `:DeputyRestart` starts it again and loads the session; `:DeputyLog` shows its log.'):format(
          signal ~= 0 and 'signal ' .. signal or 'code ' .. code
        )
      )
    end
  end)
end

--- The server says what is wrong with what it was given, which are its settings.
local function refused(error)
  client_id = nil
  vim.schedule(function()
    told(nil)
    local why = text.one_line(error.message):gsub('initializationOptions', 'settings')
    failed(('the server does not start: %s. Correct it in setup(), then `:DeputyRestart`.'):format(why))
  end)
end

--- A server that hangs while it starts is given up.
local function watch_start(id)
  local seconds = config.options.start_timeout
  vim.defer_fn(function()
    local client = id == client_id and vim.lsp.get_client_by_id(id)
    if client and not client.initialized then
      client_id = nil
      client:stop(true)
      told(nil)
      failed(
        ('the server has not answered in %g s. `:DeputyRestart` tries again; `:DeputyLog` shows its log.'):format(
          seconds
        )
      )
    end
  end, seconds * 1000)
end

local function start()
  local command = server.find()
  if not command or vim.fn.executable(command[1]) ~= 1 then
    local what = command and ('the server `%s` cannot be run'):format(command[1]) or 'no server was found'
    failed(what .. '. `:checkhealth deputy` says what to do.')
    return nil
  end
  stopping = false
  local settings = vim.tbl_extend('force', vim.empty_dict(), config.options.settings)
  return vim.lsp.start({
    name = M.NAME,
    cmd = server.starter(command, refused),
    root_dir = M.root(),
    capabilities = capabilities(),
    init_options = settings,
    settings = { deputy = settings },
    handlers = handlers,
    -- An edit is made for the text as it is told: the server hears of each change at once.
    flags = { debounce_text_changes = 0 },
    on_init = ready,
    on_exit = gone,
  }, {
    attach = false,
    reuse_client = function()
      return false
    end,
  })
end

--- Calls back with the running server, which is started if there is none; with nil when that did not work.
---@param callback fun(client: vim.lsp.Client?)
function M.with(callback)
  local client = M.get()
  if client then
    return callback(client)
  end
  table.insert(waiting, callback)
  if #waiting == 1 then
    client_id = start()
    if client_id then
      watch_start(client_id)
    else
      told(nil)
    end
  end
end

--- Whether the server has a method: an older one may lack some.
local function serves(client, method)
  local methods = vim.tbl_get(client.server_capabilities, 'experimental', 'deputy', 'methods')
  return not methods or not vim.startswith(method, 'deputy/') or vim.list_contains(methods, method)
end

--- Sends a request; errors are told, unless `callback` takes them.
---@param method string
---@param params table
---@param callback fun(result: any, error: lsp.ResponseError?)?
---@param quiet boolean? the callback deals with errors
function M.request(method, params, callback, quiet)
  M.with(function(client)
    if not client then
      return callback and quiet and callback(nil, { code = M.NO_SERVER, message = 'there is no server' }) or nil
    end
    if not serves(client, method) then
      vim.notify(('Deputy: this version of the server has no `%s`.'):format(method), vim.log.levels.WARN)
      return
    end
    local function answered(error, result)
      asked[answered] = nil
      -- That the server has gone is told once, for all.
      if error and not quiet and error.code ~= M.LOST then
        vim.notify('Deputy: ' .. text.one_line(error.message), vim.log.levels.WARN)
      end
      if callback and (quiet or not error) then
        callback(result, error)
      end
    end
    asked[answered] = true
    client:request(method, params, answered)
  end)
end

--- Ends the server and calls back when it is gone.
---@param callback fun()
function M.stop(callback)
  -- One that hangs while it starts is stopped as well.
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  if not client or client:is_stopped() then
    return callback()
  end
  stopping = true
  local before = M.on_gone
  M.on_gone = function(unexpected)
    M.on_gone = before
    before(unexpected)
    callback()
  end
  client:stop(not client.initialized or 2000)
end

vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufFilePost' }, {
  group = vim.api.nvim_create_augroup('deputy.client', {}),
  callback = function(event)
    attach(event.buf)
  end,
})

return M
