--- A component for status lines: `%{v:lua.require'deputy.statusline'.get()}`.

local M = {}

--- `Agents: 1 primary, 2 running, 1 finished`; empty while there is no session. Never starts anything.
---@return string
function M.get()
  if not package.loaded['deputy.session'] then
    return ''
  end
  local session = require('deputy.session').get()
  return session and require('deputy.words').status_line(session.state) or ''
end

return M
