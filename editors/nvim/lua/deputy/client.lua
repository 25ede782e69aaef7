--- The language server: starting it, attaching buffers, requests. All functions return immediately.

local config = require('deputy.config')
local server = require('deputy.server')
local text = require('deputy.text')

local M = {}

M.NAME = 'deputy'
--- Error code when there is no server to send a request to.
M.NO_SERVER = 0
--- Error code when the server ended before it answered.
M.LOST = -1

---@type integer?
local client_id
local waiting = {} ---@type (fun(client: vim.lsp.Client?))[]
local pending = {} ---@type table<fun(error: lsp.ResponseError?, result: any), true> callbacks of open requests
local stopping = false

--- Hooks for the rest of the plugin, called for messages and state changes of the server.
M.on_event = function(_) end ---@type fun(event: table)
M.on_request = function(_) end ---@type fun(request: deputy.PermissionRequest|deputy.InputRequest)
M.on_notice = function(_) end ---@type fun(notice: string)
M.on_ready = function() end
M.on_gone = function(_) end ---@type fun(unexpected: boolean)
M.on_failure = function(_) end ---@type fun(reason: string) called when the server cannot be started

--- The folder that agents work in: the running server's, otherwise the project of the current file.
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
  -- Edits contain the document version that they apply to.
  all.workspace.workspaceEdit.documentChanges = true
  all.experimental = {
    deputy = {
      protocolVersion = 1,
      events = true,
      permissions = true,
      input = true,
      diffPreview = true,
      diagnostics = true,
      navigation = true,
      review = true,
    },
  }
  return all
end

-- -- requests and notifications of the server ----------------------------------------------------------------------

local handlers = {}

handlers['deputy/event'] = function(_, event)
  M.on_event(event)
end

--- The plugin answers with `deputy/permission/answer`. This request stays pending until the permission request is
--- settled, here or in another client, and then returns without a choice.
handlers['deputy/permission/request'] = function(_, request)
  local thread = coroutine.running()
  M.on_request(request, function()
    coroutine.resume(thread)
  end)
  coroutine.yield()
  return { outcome = { outcome = 'cancelled' } }
end

--- Likewise, with `deputy/input/answer`.
handlers['deputy/input/request'] = function(_, request)
  local thread = coroutine.running()
  M.on_request(request, function()
    coroutine.resume(thread)
  end)
  coroutine.yield()
  return { outcome = 'cancelled' }
end

--- Messages of the server are often longer than the message line, so the session window shows them.
handlers['window/showMessage'] = function(_, params)
  M.on_notice(params.message)
  if params.type == vim.lsp.protocol.MessageType.Error then
    vim.notify('Deputy: ' .. text.one_line(params.message), vim.log.levels.ERROR)
  end
end

--- Queries of agents to the editor's language servers.
for _, name in ipairs({ 'diagnostics', 'definition', 'references', 'hover', 'symbols' }) do
  handlers['deputy/editor/' .. name] = function(_, params, context)
    return require('deputy.language')[name](params, vim.lsp.get_client_by_id(context.client_id))
  end
end

handlers['workspace/applyEdit'] = function(...)
  return require('deputy.edits').apply(...)
end

-- -- start and exit ----------------------------------------------------------------------------------------------

--- Calls the callbacks that wait for a server.
local function resolve_waiting(client)
  local all = waiting
  waiting = {}
  for _, callback in ipairs(all) do
    callback(client)
  end
end

--- Fails all requests without a response.
local function fail_pending()
  local all = pending
  pending = {}
  for answered in pairs(all) do
    answered({ code = M.LOST, message = 'the server has ended' })
  end
end

--- Attaches buffers of files below the root, so that agents read unsaved text and edits can be undone as usual.
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
    resolve_waiting(client)
  end)
end

--- Reports once why there is no server.
local function failed(reason)
  M.on_failure(reason)
  vim.notify('Deputy: ' .. reason, vim.log.levels.ERROR)
end

local function exited(code, signal, id)
  -- Ignore a server that was stopped earlier.
  if id ~= client_id then
    return
  end
  client_id = nil
  vim.schedule(function()
    resolve_waiting(nil)
    fail_pending()
    local unexpected = not stopping
    stopping = false
    M.on_gone(unexpected)
    if unexpected then
      failed(
        ('the server ended (%s). `:DeputyRestart` restarts it and loads the session; `:DeputyLog` shows its log.'):format(
          signal ~= 0 and 'signal ' .. signal or 'code ' .. code
        )
      )
    end
  end)
end

--- The server rejected its settings.
local function rejected(error)
  client_id = nil
  vim.schedule(function()
    resolve_waiting(nil)
    local why = text.one_line(error.message):gsub('initializationOptions', 'settings')
    failed(('the server does not start: %s. Correct it in setup(), then `:DeputyRestart`.'):format(why))
  end)
end

--- Stops a server that does not finish starting.
local function watch_start(id)
  local seconds = config.options.start_timeout
  vim.defer_fn(function()
    local client = id == client_id and vim.lsp.get_client_by_id(id)
    if client and not client.initialized then
      client_id = nil
      client:stop(true)
      resolve_waiting(nil)
      failed(
        ('the server did not answer within %g s. `:DeputyRestart` tries again; `:DeputyLog` shows its log.'):format(
          seconds
        )
      )
    end
  end, seconds * 1000)
end

---@param command string[]
---@return integer? client
local function start(command)
  if vim.fn.executable(command[1]) ~= 1 then
    failed(('the server `%s` cannot be run. Run `:checkhealth deputy`.'):format(command[1]))
    return nil
  end
  stopping = false
  local settings = vim.tbl_extend('force', vim.empty_dict(), config.options.settings)
  return vim.lsp.start({
    name = M.NAME,
    cmd = server.starter(command, rejected),
    root_dir = M.root(),
    capabilities = capabilities(),
    init_options = settings,
    settings = { deputy = settings },
    handlers = handlers,
    -- Edits contain the document version, so the server must get each change immediately.
    flags = { debounce_text_changes = 0 },
    on_init = ready,
    on_exit = exited,
  }, {
    attach = false,
    reuse_client = function()
      return false
    end,
  })
end

--- Starts the server for the callbacks that wait for it. Without one, offers to install it.
local function start_for_waiting()
  local command, why = server.find()
  if not command then
    return require('deputy.install').offer(why .. ' Install it?', function(installed)
      if installed and server.find() then
        start_for_waiting()
      else
        failed('there is no server. `:DeputyInstall` installs it.')
        resolve_waiting(nil)
      end
    end)
  end
  client_id = start(command)
  if client_id then
    watch_start(client_id)
  else
    resolve_waiting(nil)
  end
end

--- Calls back with the running server, starting it if needed; with nil if the start fails.
---@param callback fun(client: vim.lsp.Client?)
function M.with(callback)
  local client = M.get()
  if client then
    return callback(client)
  end
  table.insert(waiting, callback)
  if #waiting == 1 then
    start_for_waiting()
  end
end

--- Whether the server supports a method; an older server may not.
local function serves(client, method)
  local methods = vim.tbl_get(client.server_capabilities, 'experimental', 'deputy', 'methods')
  return not methods or not vim.startswith(method, 'deputy/') or vim.list_contains(methods, method)
end

--- Sends a request. Errors are shown to the user unless `quiet` is set.
---@param method string
---@param params table
---@param callback fun(result: any, error: lsp.ResponseError?)?
---@param quiet boolean? the callback handles errors
function M.request(method, params, callback, quiet)
  M.with(function(client)
    if not client then
      return callback and quiet and callback(nil, { code = M.NO_SERVER, message = 'the server is not running' }) or nil
    end
    if not serves(client, method) then
      vim.notify(('Deputy: this version of the server has no `%s`.'):format(method), vim.log.levels.WARN)
      return
    end
    local function answered(error, result)
      pending[answered] = nil
      -- The end of the server is reported once, not for each request.
      if error and not quiet and error.code ~= M.LOST then
        vim.notify('Deputy: ' .. text.one_line(error.message), vim.log.levels.WARN)
      end
      if callback and (quiet or not error) then
        callback(result, error)
      end
    end
    pending[answered] = true
    client:request(method, params, answered)
  end)
end

--- Stops the server and calls back when it has exited.
---@param callback fun()
function M.stop(callback)
  -- Also stops a server that has not finished starting.
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
