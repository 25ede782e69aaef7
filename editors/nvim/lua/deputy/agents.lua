--- Agents by name, and the actions on one: stop it, send it a message, revert its edits.

local client = require('deputy.client')
local reducer = require('deputy.reducer')
local sessions = require('deputy.session')
local text = require('deputy.text')

local M = {}

---@param session deputy.Session
---@param agent_id string
---@return string
local function label_of(session, agent_id)
  local node = session.state.agents[agent_id]
  return text.one_line(node and node.label)
end

--- Stops an agent and its descendants; the primary stops the session.
---@param session deputy.Session
---@param agent_id string
function M.stop(session, agent_id)
  client.request('deputy/agent/cancel', { sessionId = session.id, agentId = agent_id }, function(answer)
    if not answer.cancelled then
      vim.notify('Deputy: that agent has already finished.')
    end
  end)
end

--- Asks the user whether to stop an agent, or all agents for the primary.
---@param session deputy.Session
---@param agent_id string
---@return boolean
function M.confirm_stop(session, agent_id)
  local node = session.state.agents[agent_id]
  local which = node and node.parentAgentId and ('[%s]'):format(label_of(session, agent_id)) or 'all agents'
  return vim.fn.confirm(('Stop %s?'):format(which), '&Stop\n&Cancel', 2) == 1
end

--- Stops all agents of the current session. Queued prompts move back into the input area.
function M.stop_all()
  local session = sessions.get()
  if session then
    require('deputy.input').unqueue(session, session.state.promptQueue, function()
      client.request('deputy/session/cancel', { sessionId = session.id })
    end)
  end
end

--- Resumes the current session's interrupted turn; starts the server if needed.
function M.continue()
  local session = sessions.get()
  if session and session.state.ended and session.state.ended.interrupted then
    sessions.prompt({ { type = 'text', text = 'Continue where you were interrupted.' } })
  else
    vim.notify('Deputy: no turn was interrupted here.')
  end
end

--- Sends a message to a running agent; asks for the text if none is given.
---@param session deputy.Session
---@param agent_id string
---@param message string?
function M.steer(session, agent_id, message)
  local function send(entered)
    if entered and vim.trim(entered) ~= '' then
      client.request('deputy/agent/message', { sessionId = session.id, agentId = agent_id, text = entered }, function()
        local waits = #reducer.requests_of(session.state, agent_id) > 0
        local when = waits and 'once its approval is answered' or 'after its next step'
        vim.notify(('Deputy: [%s] reads the message %s.'):format(text.cut(label_of(session, agent_id), 24), when))
      end)
    end
  end
  if message and message ~= '' then
    return send(message)
  end
  vim.ui.input({ prompt = ('Message to [%s]: '):format(label_of(session, agent_id)) }, send)
end

--- Reverts the edits of an agent after the user confirms.
---@param session deputy.Session
---@param agent_id string
function M.revert(session, agent_id)
  local ask = ('Revert all edits of [%s]?'):format(label_of(session, agent_id))
  if vim.fn.confirm(ask, '&Revert\n&Cancel', 2) ~= 1 then
    return
  end
  client.request('deputy/agent/revert', { sessionId = session.id, agentId = agent_id }, function(answer)
    local message = ('Deputy: reverted edits in %s'):format(text.plural(#answer.reverted, 'file'))
    for _, conflict in ipairs(answer.conflicts) do
      message = ('%s\n%s was not reverted: %s'):format(message, text.path(conflict.uri), text.one_line(conflict.reason))
    end
    vim.notify(message, #answer.conflicts > 0 and vim.log.levels.WARN or vim.log.levels.INFO)
    vim.cmd.checktime()
  end)
end

-- -- by name -----------------------------------------------------------------------------------------------------

--- Agents of the current session by the name that commands accept: the label, with a number if it is not unique.
---@return table<string, deputy.AgentNode> by_name, string[] names
local function named()
  local session = sessions.get()
  local by_name, names = {}, {}
  for _, node in ipairs(session and reducer.tree(session.state) or {}) do
    local label = text.one_line(node.label)
    local name, number = label, 1
    while by_name[name] do
      number = number + 1
      name = ('%s (%d)'):format(label, number)
    end
    by_name[name] = node
    table.insert(names, name)
  end
  return by_name, names
end

--- Names of agents that start with `lead` and for which `holds` returns true.
---@param lead string
---@param holds fun(node: deputy.AgentNode): boolean
---@return string[]
function M.complete(lead, holds)
  local by_name, names = named()
  return vim.tbl_filter(function(name)
    return vim.startswith(name:lower(), lead:lower()) and holds(by_name[name])
  end, names)
end

--- The agent whose name a command's arguments start with, and the text after it; notifies the user if there is none.
---@param arguments string
---@return deputy.AgentNode? node, string? message
function M.find(arguments)
  local by_name, names = named()
  -- Longest first: a name may be a prefix of another one.
  table.sort(names, function(a, b)
    return #a > #b
  end)
  for _, name in ipairs(names) do
    local rest = vim.startswith(arguments, name) and arguments:sub(#name + 1)
    if rest == '' or rest and vim.startswith(rest, ' ') then
      return by_name[name], vim.trim(rest)
    end
  end
  vim.notify(('Deputy: no agent is named "%s". <Tab> completes names.'):format(arguments), vim.log.levels.WARN)
end

return M
