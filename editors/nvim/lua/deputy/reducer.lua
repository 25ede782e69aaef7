--- The fold of a session's events: agents, transcripts, open permission requests, plans, counts. Pure.
---
--- Everything that is shown is derived from this state. A durable event whose number is not above the last one changes
--- nothing; events of unknown types only advance the number. Entries are replaced, never changed in place, so that
--- drawn lines can be cached per entry.

local M = {}

local ENDED = { completed = true, failed = true, cancelled = true }
--- Bytes of a running command's output that are kept.
local MOST_OUTPUT = 4096
local ENVELOPE = { type = true, seq = true, agentSeq = true, afterSeq = true, time = true, run = true, agentId = true }

---@alias deputy.Entry deputy.MessageEntry|deputy.ToolCallEntry|deputy.AgentEntry

---@class deputy.State
---@field lastSeq integer
---@field gap boolean an event is missing: the session must be reloaded
---@field agents table<string, deputy.AgentNode>
---@field primary string?
---@field transcripts table<string, deputy.Entry[]> by agent, in the order of `seq`
---@field earlier table<string, boolean> agents whose transcript has earlier entries, which are loaded on demand
---@field requests deputy.PermissionRequest[] open permission requests, in order
---@field inputs deputy.InputRequest[] open questions, in order
---@field plans table<string, deputy.PlanEntry[]>
---@field promptQueue deputy.PromptQueueEntry[]
---@field streaming table<string, { agentId: string, text: string }> by message
---@field streams string[] ids of the messages that stream, oldest first
---@field activities table<string, string>
---@field details table<string, string>
---@field turn string? id of the running turn
---@field turnSince string? its start, if known
---@field snapshot number? time of reading in seconds, for a session that is open in another Deputy process
---@field ended deputy.TurnOutcome? outcome of the last turn, until the next one starts
---@field outputs table<string, string> the end of the output of running calls
---@field calls table<string, { owner: string, index: integer, locations: deputy.Location[] }>

---@return deputy.State
function M.new()
  return {
    lastSeq = 0,
    gap = false,
    agents = {},
    transcripts = {},
    earlier = {},
    requests = {},
    inputs = {},
    plans = {},
    promptQueue = {},
    streaming = {},
    streams = {},
    activities = {},
    details = {},
    outputs = {},
    calls = {},
  }
end

---@param agent deputy.AgentNode
---@return boolean
function M.ended(agent)
  return ENDED[agent.status] or false
end

local function copy(from, changes)
  local to = {}
  for key, value in pairs(from) do
    to[key] = value
  end
  for key, value in pairs(changes or {}) do
    to[key] = value
  end
  return to
end

--- Marks running agents as interrupted, because the server has ended.
---@param state deputy.State
---@param time string
function M.interrupt(state, time)
  if state.turn then
    state.ended = { turnId = state.turn, stopReason = 'cancelled', interrupted = true }
  end
  state.turn, state.requests, state.inputs = nil, {}, {}
  for id, node in pairs(state.agents) do
    if id == state.primary then
      state.agents[id] = copy(node, { status = 'idle' })
    elseif not ENDED[node.status] then
      local how = { status = 'failed', failureReason = 'interrupted_by_restart', endedAt = time }
      state.agents[id] = copy(node, how)
    end
  end
end

local function enter(state, owner, entry)
  local entries = state.transcripts[owner] or {}
  state.transcripts[owner] = entries
  table.insert(entries, entry)
  return #entries
end

local function call_key(agent_id, run, call_id)
  return table.concat({ agent_id, run, call_id }, '\n')
end

--- The node that an event of its current run changes; nil after the run has ended.
local function own_node(state, event)
  local node = state.agents[event.agentId or '']
  if node and node.run == event.run and not ENDED[node.status] then
    return node
  end
end

local function change(state, event, update)
  local node = own_node(state, event)
  if node then
    node = copy(node, { updatedAt = event.time })
    update(node)
    state.agents[node.agentId] = node
  end
end

local function forget_stream(state, message_id)
  state.streaming[message_id] = nil
  state.streams = vim.tbl_filter(function(id)
    return id ~= message_id
  end, state.streams)
end

local on = {}

function on.turn_started(state, event)
  state.turn, state.turnSince, state.ended = event.turnId, event.time, nil
end

function on.turn_finished(state, event)
  state.turn, state.turnSince, state.ended = nil, nil, event
end

function on.agent_started(state, event)
  local node, earlier = event.agent, state.agents[event.agent.agentId]
  if earlier then
    node = copy(node, { startedAt = earlier.startedAt, usage = earlier.usage, context = earlier.context })
  end
  state.agents[node.agentId] = node
  state.activities[node.agentId], state.details[node.agentId] = nil, nil
  if not node.parentAgentId then
    state.primary = node.agentId
    return
  end
  enter(state, node.parentAgentId, {
    type = 'agent',
    seq = event.seq,
    agentId = node.agentId,
    run = event.run,
    time = event.time,
    toolCallId = event.toolCallId,
  })
end

function on.agent_status(state, event)
  change(state, event, function(node)
    node.status, node.queuePosition = event.status, event.queuePosition
    state.details[node.agentId] = event.detail
    if event.status == 'idle' then
      state.activities[node.agentId] = nil
    end
  end)
end

function on.agent_finished(state, event)
  change(state, event, function(node)
    node.status, node.endedAt, node.queuePosition = event.status, event.time, nil
    node.summary, node.error, node.failureReason = event.result, event.error, event.failureReason
    node.usage, node.toolCallCount = event.usage, event.toolCallCount
    state.activities[node.agentId], state.details[node.agentId] = nil, nil
  end)
end

function on.usage(state, event)
  change(state, event, function(node)
    node.usage = event.usage
    node.context = event.context or node.context
  end)
end

function on.message(state, event)
  forget_stream(state, event.messageId)
  enter(state, event.agentId, {
    type = 'message',
    seq = event.seq,
    agentId = event.agentId,
    run = event.run,
    time = event.time,
    messageId = event.messageId,
    role = event.role,
    text = event.text,
    references = event.references,
    pictures = event.pictures,
  })
end

function on.thought(state, event)
  enter(state, event.agentId, {
    type = 'thought',
    seq = event.seq,
    agentId = event.agentId,
    run = event.run,
    time = event.time,
    messageId = event.messageId,
    text = event.text,
  })
end

function on.tool_call(state, event)
  local key = call_key(event.agentId, event.run, event.toolCallId)
  if state.calls[key] then
    return
  end
  local entry = copy(event)
  entry.sessionId, entry.agentSeq = nil, nil
  local index = enter(state, event.agentId, entry)
  state.calls[key] = { owner = event.agentId, index = index, locations = event.locations }
  change(state, event, function(node)
    node.toolCallCount = node.toolCallCount + 1
  end)
end

function on.tool_call_update(state, event)
  local at = state.calls[call_key(event.agentId, event.run, event.toolCallId)]
  if not at then
    return
  end
  local entries = state.transcripts[at.owner]
  local entry = copy(entries[at.index], { status = event.status, locations = event.locations or at.locations })
  entry.content, entry.diff = event.content, event.diff
  entries[at.index] = entry
  if event.status ~= 'in_progress' then
    state.outputs[event.toolCallId] = nil
  end
end

function on.plan(state, event)
  state.plans[event.agentId] = event.entries
end

--- Adds a request to a list of open ones.
local function opens(list)
  return function(state, event)
    local request = {}
    for key, value in pairs(event) do
      if not ENVELOPE[key] then
        request[key] = value
      end
    end
    table.insert(state[list], request)
    change(state, event, function() end)
  end
end

--- Removes a settled request from a list of open ones.
local function settles(list)
  return function(state, event)
    for index, request in ipairs(state[list]) do
      if request.requestId == event.requestId then
        table.remove(state[list], index)
        change(state, event, function() end)
        return
      end
    end
  end
end

on.permission_requested, on.permission_resolved = opens('requests'), settles('requests')
on.input_requested, on.input_resolved = opens('inputs'), settles('inputs')

local lossy = {}

function lossy.agent_activity(state, event)
  local node = own_node(state, event)
  if node and node.status == 'running' then
    state.activities[node.agentId] = event.text
  end
end

function lossy.message_delta(state, event)
  local before = state.streaming[event.messageId]
  if not before then
    table.insert(state.streams, event.messageId)
  end
  state.streaming[event.messageId] = { agentId = event.agentId, text = (before and before.text or '') .. event.text }
end

function lossy.tool_output_delta(state, event)
  local output = (state.outputs[event.toolCallId] or '') .. event.text
  state.outputs[event.toolCallId] = output:sub(-MOST_OUTPUT)
end

function lossy.prompt_queue(state, event)
  state.promptQueue = event.entries
end

--- Folds one event into `state`.
---@param state deputy.State
---@param event table the parameters of `deputy/event`
function M.apply(state, event)
  if not event.seq then
    local fold = lossy[event.type]
    if fold then
      fold(state, event)
    end
    return
  end
  if event.seq <= state.lastSeq then
    return
  end
  state.gap = state.gap or event.seq > state.lastSeq + 1
  state.lastSeq = event.seq
  local fold = on[event.type]
  if fold then
    fold(state, event)
  end
end

--- The state of a loaded session. For sub-agents it has only the nodes until `put_transcript` adds their transcripts.
---@param loaded deputy.SessionLoadResult
---@return deputy.State
function M.loaded(loaded)
  local state = M.new()
  state.lastSeq = loaded.lastSeq
  state.requests, state.inputs = vim.list_slice(loaded.permissions), vim.list_slice(loaded.inputs)
  state.promptQueue = loaded.promptQueue
  state.ended = loaded.lastTurn
  state.snapshot = loaded.snapshot and os.time() or nil
  for _, plan in ipairs(loaded.plans) do
    state.plans[plan.agentId] = plan.entries
  end
  for _, node in ipairs(loaded.agents) do
    state.agents[node.agentId] = node
    if not node.parentAgentId then
      state.primary = node.agentId
      state.turn = node.status == 'running' and 'loaded' or nil
    end
  end
  M.put_transcript(state, state.primary, loaded.transcript, loaded.earlier)
  return state
end

--- Adds entries of an agent's transcript, and keeps later ones.
---@param state deputy.State
---@param agent_id string
---@param entries deputy.Entry[]
---@param earlier boolean? whether there are entries before them
function M.put_transcript(state, agent_id, entries, earlier)
  state.earlier[agent_id] = earlier
  local later, last = state.transcripts[agent_id] or {}, #entries > 0 and entries[#entries].seq or 0
  state.transcripts[agent_id] = {}
  local function put(entry)
    local index = enter(state, agent_id, entry)
    if entry.type == 'tool_call' then
      local at = { owner = agent_id, index = index, locations = entry.locations }
      state.calls[call_key(entry.agentId, entry.run, entry.toolCallId)] = at
    end
  end
  vim.iter(entries):each(put)
  vim
    .iter(later)
    :filter(function(entry)
      return entry.seq > last
    end)
    :each(put)
end

--- All agents, ordered by start, then id.
---@param state deputy.State
---@return deputy.AgentNode[]
function M.tree(state)
  local nodes = vim.tbl_values(state.agents)
  table.sort(nodes, function(a, b)
    if a.startedAt ~= b.startedAt then
      return a.startedAt < b.startedAt
    end
    return a.agentId < b.agentId
  end)
  return nodes
end

--- The open permission requests of one agent.
---@param state deputy.State
---@param agent_id string
---@return deputy.PermissionRequest[]
function M.requests_of(state, agent_id)
  return vim.tbl_filter(function(request)
    return request.agent.agentId == agent_id
  end, state.requests)
end

--- The open questions of one agent.
---@param state deputy.State
---@param agent_id string
---@return deputy.InputRequest[]
function M.inputs_of(state, agent_id)
  return vim.tbl_filter(function(request)
    return request.agent.agentId == agent_id
  end, state.inputs)
end

--- Whether an agent waits for the user.
---@param state deputy.State
---@param agent_id string
---@return boolean
function M.waits(state, agent_id)
  return #M.requests_of(state, agent_id) + #M.inputs_of(state, agent_id) > 0
end

--- Counts for the status line: sub-agents by state; `awaitingPermission` is included in `running`.
---@param state deputy.State
function M.counts(state)
  local counts = { primary = 1, pending = 0, running = 0, awaitingPermission = 0, finished = 0 }
  for id, node in pairs(state.agents) do
    if node.parentAgentId then
      local key = ENDED[node.status] and 'finished' or node.status
      counts[key] = counts[key] + 1
      if node.status == 'running' and M.waits(state, id) then
        counts.awaitingPermission = counts.awaitingPermission + 1
      end
    end
  end
  return counts
end

--- An entry with its sub-agent's latest state, as on the wire.
---@param state deputy.State
---@param entry deputy.Entry
---@return deputy.Entry
function M.latest(state, entry)
  if entry.type ~= 'agent' then
    return entry
  end
  local node = state.agents[entry.agentId]
  return copy(entry, { agent = node, toolCallId = node.toolCallId, result = node.summary })
end

return M
