--- A component for status lines: `%{v:lua.require'deputy.statusline'.get()}`.

local M = {}

--- `Agents: 1 primary, 2 running, 1 finished · context 42 % · $0.73`; empty if there is no session. Never starts the server.
---@return string
function M.get()
  if not package.loaded['deputy.session'] then
    return ''
  end
  local session = require('deputy.session').get()
  if not session then
    return ''
  end
  local labels = require('deputy.labels')
  local parts = { labels.status_line(session.state), labels.gauge(session.state), labels.cost(session.state) }
  return vim
    .iter(parts)
    :filter(function(part)
      return part ~= ''
    end)
    :join(' · ')
end

return M
