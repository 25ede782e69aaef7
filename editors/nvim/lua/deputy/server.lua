--- The server's program: where it is, and how it is started.

local config = require('deputy.config')

local M = {}

local function executable(path)
  return path and vim.fn.executable(path) == 1 and path or nil
end

--- Where the server is, and how that was found: `setup`, `VIRTUAL_ENV`, `PATH` or the folder of this plugin.
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
    return { found, 'serve', '--stdio' }, 'the folder that this plugin is in'
  end
  return nil, 'nowhere'
end

--- A way to start the server in which an answer that refuses `initialize` is told to `refused`: Neovim itself takes any
--- such answer for a fault of its own.
---@param command string[]
---@param refused fun(error: lsp.ResponseError)
---@return fun(dispatchers: vim.lsp.rpc.Dispatchers): vim.lsp.rpc.PublicClient
function M.starter(command, refused)
  return function(dispatchers)
    local rpc = vim.lsp.rpc.start(command, dispatchers, { env = config.options.env })
    local request = rpc.request
    rpc.request = function(method, params, callback, ...)
      if method ~= 'initialize' then
        return request(method, params, callback, ...)
      end
      return request(method, params, function(error, result)
        if error then
          refused(error)
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
