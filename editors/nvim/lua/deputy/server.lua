--- Finding and starting the server's program.

local bundle = require('deputy.bundle')
local config = require('deputy.config')

local M = {}

local function executable(path)
  return path and path ~= '' and vim.fn.executable(path) == 1 and path or nil
end

local versions = {} ---@type table<string, string|false> by path and time of change

--- The version of a `deputy` command; nil if it is another program, or does not start.
---@param path string
---@return string?
function M.version(path)
  local file = vim.uv.fs_stat(path)
  local key = path .. (file and file.mtime.sec or '')
  if versions[key] == nil then
    local started, process = pcall(vim.system, { path, '--version' }, { text = true, timeout = 10000 })
    local ended = started and process:wait()
    versions[key] = ended and ended.code == 0 and ended.stdout:match('^deputy (%d+%.%d+%.%d+)') or false
  end
  return versions[key] or nil
end

--- Places of the server, in the order in which they are searched.
---@return { path: string?, how: string }[]
local function places()
  local environment = vim.env.VIRTUAL_ENV
  return {
    { path = environment and environment .. '/bin/deputy', how = 'VIRTUAL_ENV' },
    { path = vim.fn.exepath('deputy'), how = 'PATH' },
    { path = bundle.repository() .. '/.venv/bin/deputy', how = 'the folder of this plugin' },
    { path = bundle.state() == 'ready' and bundle.command() or nil, how = '`:DeputyInstall`' },
  }
end

--- The server's command line, and its source: `setup`, `VIRTUAL_ENV`, `PATH`, the folder of this plugin or
--- `:DeputyInstall`. Without one: why there is none.
---@return string[]? command, string how
function M.find()
  local given = config.options.server
  if given then
    return given, 'option `server`'
  end
  local why = bundle.state() == 'outdated' and 'The installed server belongs to an earlier version of the plugin.'
    or 'No server was found.'
  for _, place in ipairs(places()) do
    local path = executable(place.path)
    local version = path and M.version(path)
    if version and bundle.fits(version) then
      return { path, 'serve', '--stdio' }, place.how
    elseif version then
      why = ('%s has version %s, which does not fit this plugin.'):format(path, version)
    end
  end
  return nil, why
end

--- Starts the server and calls `rejected` if it answers `initialize` with an error. Neovim itself treats such an answer
--- as an internal error.
---@param command string[]
---@param rejected fun(error: lsp.ResponseError)
---@return fun(dispatchers: vim.lsp.rpc.Dispatchers): vim.lsp.rpc.PublicClient
function M.starter(command, rejected)
  return function(dispatchers)
    local is_terminated = false
    -- Neovim would report the status of a server that was terminated as a failure.
    local function on_exit(code, signal)
      dispatchers.on_exit(is_terminated and 0 or code, signal)
    end
    local own = vim.tbl_extend('force', dispatchers, { on_exit = on_exit })
    local rpc = vim.lsp.rpc.start(command, own, { env = config.options.env })
    local request, terminate = rpc.request, rpc.terminate
    rpc.terminate = function()
      is_terminated = true
      terminate()
    end
    rpc.request = function(method, params, callback, ...)
      if method ~= 'initialize' then
        return request(method, params, callback, ...)
      end
      return request(method, params, function(error, result)
        if error then
          rejected(error)
          rpc.terminate()
        else
          callback(error, result)
        end
      end, ...)
    end
    return rpc
  end
end

return M
