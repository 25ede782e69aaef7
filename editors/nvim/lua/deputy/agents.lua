--- Agents by name, and what can be done to one: stop it, say something to it, take its edits back.

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

--- Stops an agent and all below it; the primary stands for the session.
---@param session deputy.Session
---@param agent_id string
function M.stop(session, agent_id)
  client.request('deputy/agent/cancel', { sessionId = session.id, agentId = agent_id }, function(answer)
    if not answer.cancelled then
      vim.notify('Deputy: nothing was running there any more.')
    end
  end)
end

--- Stops all agents of the current session. Prompts that wait would end with them: their words go back.
function M.stop_all()
  local session = sessions.get()
  if session then
    require('deputy.input').take_back(session, session.state.promptQueue, function()
      client.request('deputy/session/cancel', { sessionId = session.id })
    end)
  end
end

--- Goes on with the current session's turn that the end of the server cut off; starts the server if need be.
function M.continue()
  local session = sessions.get()
  if session and session.state.ended and session.state.ended.interrupted then
    sessions.prompt({ { type = 'text', text = 'Continue where you were interrupted.' } })
  else
    vim.notify('Deputy: no turn was interrupted here.')
  end
end

--- Says something to a running agent; asks for the words where none are given.
---@param session deputy.Session
---@param agent_id string
---@param words string?
function M.steer(session, agent_id, words)
  local function say(said)
    if said and vim.trim(said) ~= '' then
      client.request('deputy/agent/message', { sessionId = session.id, agentId = agent_id, text = said }, function()
        local asks = #reducer.questions_of(session.state, agent_id) > 0
        local when = asks and 'once its question is answered' or 'after its next step'
        vim.notify(('Deputy: [%s] reads that %s.'):format(text.cut(label_of(session, agent_id), 24), when))
      end)
    end
  end
  if words and words ~= '' then
    return say(words)
  end
  vim.ui.input({ prompt = ('To [%s]: '):format(label_of(session, agent_id)) }, say)
end

--- Takes the edits of an agent back, once the user has confirmed.
---@param session deputy.Session
---@param agent_id string
function M.revert(session, agent_id)
  local ask = ('Take back all edits of [%s]?'):format(label_of(session, agent_id))
  if vim.fn.confirm(ask, '&Take back\n&No', 2) ~= 1 then
    return
  end
  client.request('deputy/agent/revert', { sessionId = session.id, agentId = agent_id }, function(answer)
    local words = ('Deputy: took back edits in %s'):format(text.plural(#answer.reverted, 'file'))
    for _, conflict in ipairs(answer.conflicts) do
      words = ('%s\n%s is left alone: %s'):format(words, text.path(conflict.uri), text.one_line(conflict.reason))
    end
    vim.notify(words, #answer.conflicts > 0 and vim.log.levels.WARN or vim.log.levels.INFO)
    vim.cmd.checktime()
  end)
end

-- -- by name -----------------------------------------------------------------------------------------------------

--- Agents of the current session by the name that commands take: the label, with a number where it is not alone.
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

--- Names of agents that begin with `lead` and for which `holds` is true.
---@param lead string
---@param holds fun(node: deputy.AgentNode): boolean
---@return string[]
function M.complete(lead, holds)
  local by_name, names = named()
  return vim.tbl_filter(function(name)
    return vim.startswith(name:lower(), lead:lower()) and holds(by_name[name])
  end, names)
end

--- The agent whose name a command's arguments begin with, and the words behind it; told when there is none.
---@param arguments string
---@return deputy.AgentNode? node, string? words
function M.find(arguments)
  local by_name, names = named()
  -- A name may be the beginning of another one.
  table.sort(names, function(a, b)
    return #a > #b
  end)
  for _, name in ipairs(names) do
    local rest = vim.startswith(arguments, name) and arguments:sub(#name + 1)
    if rest == '' or rest and vim.startswith(rest, ' ') then
      return by_name[name], vim.trim(rest)
    end
  end
  vim.notify(('Deputy: no agent is called "%s". <Tab> completes names.'):format(arguments), vim.log.levels.WARN)
end

return M
