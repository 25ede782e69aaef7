--- A component for status lines: `%{v:lua.require'deputy.statusline'.get()}`.

local M = {}

--- `Agents: 1 primary, 2 running, 1 finished`; empty if there is no session. Never starts the server.
---@return string
function M.get()
  if not package.loaded['deputy.session'] then
    return ''
  end
  local session = require('deputy.session').get()
  return session and require('deputy.labels').status_line(session.state) or ''
end

return M
