--- Finding and starting the server's program.

local config = require('deputy.config')

local M = {}

local function executable(path)
  return path and vim.fn.executable(path) == 1 and path or nil
end

--- The server's command line, and its source: `setup`, `VIRTUAL_ENV`, `PATH` or the folder of this plugin.
---@return string[]? command, string how
function M.find()
  local given = config.options.server
  if given then
    return given, 'option `server`'
  end
  local environment = vim.env.VIRTUAL_ENV
  local found = environment and executable(environment .. '/bin/deputy')
  if found then
    return { found, 'serve', '--stdio' }, 'VIRTUAL_ENV'
  end
  found = executable(vim.fn.exepath('deputy'))
  if found then
    return { found, 'serve', '--stdio' }, 'PATH'
  end
  local here = debug.getinfo(1, 'S').source:sub(2)
  found = executable(vim.fn.fnamemodify(here, ':p:h:h:h:h:h') .. '/.venv/bin/deputy')
  if found then
    return { found, 'serve', '--stdio' }, 'the folder of this plugin'
  end
  return nil, 'nowhere'
end

--- Starts the server and calls `rejected` if it answers `initialize` with an error. Neovim itself treats such an answer
--- as an internal error.
---@param command string[]
---@param rejected fun(error: lsp.ResponseError)
---@return fun(dispatchers: vim.lsp.rpc.Dispatchers): vim.lsp.rpc.PublicClient
function M.starter(command, rejected)
  return function(dispatchers)
    local rpc = vim.lsp.rpc.start(command, dispatchers, { env = config.options.env })
    local request = rpc.request
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
