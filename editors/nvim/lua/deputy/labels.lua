--- Labels for agents, calls and counts. Pure.

local reducer = require('deputy.reducer')
local text = require('deputy.text')

local M = {}

---@alias deputy.Look3 { [1]: string, [2]: string, [3]: string } mark, word, highlight group

M.STATES = {
  idle = { '·', 'idle', 'DeputyDim' },
  pending = { '…', 'queued', 'DeputyDim' },
  running = { '⟳', 'running', 'DeputyRunning' },
  asking = { '?', 'waiting for you', 'DeputyApproval' },
  completed = { '✓', 'completed', 'DeputyDone' },
  failed = { '✗', 'failed', 'DeputyFailed' },
  cancelled = { '⊘', 'cancelled', 'DeputyCancelled' },
}

--- Labels of tool calls, by status.
M.CALLS = {
  pending = M.STATES.pending,
  in_progress = M.STATES.running,
  completed = M.STATES.completed,
  failed = M.STATES.failed,
  cancelled = M.STATES.cancelled,
}

--- Why an agent failed, by `failureReason`.
local FAILURES = {
  tool_error = 'a tool failed',
  approval_denied = 'denied by you',
  runtime_error = 'gave no answer',
  model_error = 'the model failed',
  sub_agent_error = 'gave up',
  timed_out = 'timed out',
  budget_exceeded = 'over its budget',
  interrupted_by_restart = 'interrupted by a restart',
}

local ICONS = { code_search = '⌕', code_review = '◎', planner = '☰' }

---@param state deputy.State
---@param node deputy.AgentNode
---@return deputy.Look3
function M.state_of(state, node)
  return reducer.waits(state, node.agentId) and M.STATES.asking or M.STATES[node.status]
end

--- `timed out`, `queued, place 2`, `rate limited, retrying in 4 s`.
---@param state deputy.State
---@param node deputy.AgentNode
---@return string
function M.word_of(state, node)
  if node.status == 'pending' and node.queuePosition then
    return 'queued, place ' .. node.queuePosition
  elseif node.status == 'failed' and node.failureReason then
    return FAILURES[node.failureReason] or M.STATES.failed[2]
  elseif node.status == 'running' and state.details[node.agentId] then
    return text.one_line(state.details[node.agentId])
  end
  return M.state_of(state, node)[2]
end

--- `12 s · 5 calls · 3.1k tok`.
---@param node deputy.AgentNode
---@param now number
---@return string
function M.figures(node, now)
  local used, parts = node.usage, {}
  -- An idle agent has no running time.
  if node.status ~= 'idle' then
    local ended = node.endedAt and text.seconds(node.endedAt) or now
    table.insert(parts, text.duration(ended - text.seconds(node.startedAt)))
  end
  table.insert(parts, text.plural(node.toolCallCount, 'call'))
  local tokens = used.inputTokens + used.outputTokens + used.cacheReadTokens + used.cacheWriteTokens
  if tokens > 0 then
    table.insert(parts, text.tokens(tokens) .. ' tok')
  end
  return table.concat(parts, ' · ')
end

--- The icon of an agent's definition, if it has one.
---@param node { definition: string }
---@return string
function M.icon_of(node)
  local icon = ICONS[node.definition]
  return icon and '  ' .. icon or ''
end

--- The name of an agent's definition with its icon.
---@param node { definition: string }
---@return string
function M.definition_of(node)
  local icon = ICONS[node.definition]
  return icon and icon .. ' ' .. text.one_line(node.definition) or text.one_line(node.definition)
end

--- The model of an agent, and its effort if one was chosen.
---@param node { model: string, effort: string? }
---@return string
function M.model_of(node)
  return text.one_line(node.model) .. (node.effort and ' · ' .. node.effort or '')
end

--- The same for a line about a sub-agent; empty if it has the model and effort of its parent.
---@param state deputy.State
---@param node deputy.AgentNode
---@return string
function M.own_model(state, node)
  local parent = state.agents[node.parentAgentId]
  local own = M.model_of(node)
  return parent and M.model_of(parent) ~= own and '  ' .. own or ''
end

--- `context 42 %`: how full the context window of the primary agent is; empty below 1 %.
---@param state deputy.State
---@return string
function M.gauge(state)
  local node = state.agents[state.primary or '']
  local size = node and node.context
  local percent = size and math.floor(100 * size.used / size.window) or 0
  return percent > 0 and ('context %d %%'):format(percent) or ''
end

--- `$0.73`: what all agents have cost; empty if the price of their models is unknown.
---@param state deputy.State
---@return string
function M.cost(state)
  local cost = vim.iter(pairs(state.agents)):fold(0, function(sum, _, node)
    return sum + (node.usage.cost or 0)
  end)
  if cost == 0 then
    return ''
  end
  return cost < 0.01 and '<$0.01' or ('$%.2f'):format(cost)
end

--- `Agents: 1 primary, 2 running, 1 finished`, with queued agents and open approvals. If that is too wide, only running
--- and queued agents and approvals.
---@param state deputy.State
---@param width integer?
---@return string
function M.status_line(state, width)
  local counts, open = reducer.counts(state), #state.requests + #state.inputs
  local queued = counts.pending > 0 and ('%d queued, '):format(counts.pending) or ''
  local waiting = open > 0 and (' · %d waiting for you'):format(open) or ''
  local active = ('%s%d running'):format(queued, counts.running)
  local whole = ('Agents: 1 primary, %s, %d finished%s'):format(active, counts.finished, waiting)
  return width and text.width(whole) > width and active .. waiting or whole
end

return M
