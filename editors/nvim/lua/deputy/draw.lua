--- A session as lines: pure functions from the state to what a window shows. No windows here.

local question = require('deputy.question')
local reducer = require('deputy.reducer')
local text = require('deputy.text')

local M = {}

---@class deputy.Item
---@field lines string[]
---@field marks { [1]: integer, [2]: integer, [3]: integer, [4]: string }[] line from 0, columns from and to (-1: whole line), group
---@field aside string? what stands at the right of the first line
---@field about deputy.About?
---@class deputy.About
---@field agent string?
---@field request string?
---@field entry deputy.Entry?
---@field prompt string?

M.STATES = {
  idle = { '·', 'idle', 'DeputyDim' },
  pending = { '…', 'queued', 'DeputyDim' },
  running = { '⟳', 'running', 'DeputyRunning' },
  asking = { '?', 'waiting for you', 'DeputyQuestion' },
  completed = { '✓', 'completed', 'DeputyDone' },
  failed = { '✗', 'failed', 'DeputyFailed' },
  cancelled = { '⊘', 'cancelled', 'DeputyCancelled' },
}
local CALLS = {
  pending = M.STATES.pending,
  in_progress = M.STATES.running,
  completed = M.STATES.completed,
  failed = M.STATES.failed,
  cancelled = M.STATES.cancelled,
}
local ICONS = { code_search = '⌕', code_review = '◎', planner = '☰' }
--- Nested blocks and calls stand this far in.
local INDENT = 2
local MOST_DIFF = 40
--- Cells below which what an agent does is not worth showing.
local SHORTEST = 12

-- -- words -------------------------------------------------------------------------------------------------------

---@param state deputy.State
---@param node deputy.AgentNode
function M.state_of(state, node)
  return #reducer.questions_of(state, node.agentId) > 0 and M.STATES.asking or M.STATES[node.status]
end

--- `timed out: no answer after 15 min`, `queued, place 2`, `rate limited, retrying in 4 s`.
---@param state deputy.State
---@param node deputy.AgentNode
---@return string
function M.word_of(state, node)
  local word = M.state_of(state, node)[2]
  if node.status == 'pending' and node.queuePosition then
    return 'queued, place ' .. node.queuePosition
  elseif node.status == 'failed' and node.failureReason then
    return 'failed: ' .. node.failureReason:gsub('_', ' ')
  elseif node.status == 'running' and state.details[node.agentId] then
    return text.one_line(state.details[node.agentId])
  end
  return word
end

--- `12 s · 5 calls · 3.1k tok`.
---@param node deputy.AgentNode
---@param now number
---@return string
function M.figures(node, now)
  local ended = node.endedAt and text.seconds(node.endedAt) or now
  local used, parts = node.usage, { text.duration(ended - text.seconds(node.startedAt)) }
  table.insert(parts, text.plural(node.toolCallCount, 'call'))
  local tokens = used.inputTokens + used.outputTokens + used.cacheReadTokens + used.cacheWriteTokens
  if tokens > 0 then
    table.insert(parts, text.tokens(tokens) .. ' tok')
  end
  return table.concat(parts, ' · ')
end

--- The name of an agent's definition with its icon.
---@param node { definition: string }
function M.kind_of(node)
  local icon = ICONS[node.definition]
  return icon and icon .. ' ' .. text.one_line(node.definition) or text.one_line(node.definition)
end

--- `Agents: 1 primary, 2 running, 1 finished`, with what is queued and what waits for the user.
---@param state deputy.State
---@return string
function M.status_line(state)
  local counts, asking = reducer.counts(state), #state.questions
  local queued = counts.pending > 0 and (', %d queued'):format(counts.pending) or ''
  local waiting = asking > 0 and (' · %d waiting for you'):format(asking) or ''
  return ('Agents: 1 primary%s, %d running, %d finished%s'):format(queued, counts.running, counts.finished, waiting)
end

-- -- items -------------------------------------------------------------------------------------------------------

---@return deputy.Item
local function item(lines, about)
  return { lines = lines, marks = {}, about = about }
end

local function paint(it, line, from, to, group)
  table.insert(it.marks, { line, from, to, group })
end

--- Pieces of a line, each with its group, appended to an item.
local function add(it, pieces)
  local line, at = '', #it.lines
  for _, piece in ipairs(pieces) do
    local from = #line
    line = line .. piece[1]
    if piece[2] then
      paint(it, at, from, #line, piece[2])
    end
  end
  table.insert(it.lines, line)
end

local SPEAKERS = { user = { 'You', 'DeputyUser' }, assistant = { 'Deputy', 'DeputyAssistant' } }

--- A fence that a message leaves open would swallow all that follows.
local function close_fence(lines)
  local open
  for _, line in ipairs(lines) do
    local fence = line:match('^%s*(```+)') or line:match('^%s*(~~~+)')
    if fence and not open then
      open = fence
    elseif fence and fence:sub(1, #open) == open then
      open = nil
    end
  end
  if open then
    table.insert(lines, open)
  end
  return lines
end

local function message(role, words, speaker)
  local who = SPEAKERS[role]
  local it = item({})
  add(it, { { speaker or who[1], who[2] } })
  vim.list_extend(it.lines, close_fence(text.lines((words:gsub('%s+$', '')))))
  table.insert(it.lines, '')
  return it
end

--- The title of a call without the label of the agent that makes it.
local function title_of(entry, label)
  local title, prefix = entry.title, label and ('[%s] '):format(label)
  if prefix and vim.startswith(title, prefix) then
    title = title:sub(#prefix + 1)
  end
  return text.one_line(title)
end

local function call(entry, indent, label)
  local look, it = CALLS[entry.status] or CALLS.pending, item({}, { entry = entry, agent = entry.agentId })
  local title = text.cut(title_of(entry, label), 100)
  local failed = entry.status == 'failed' and entry.content and '  ' .. text.cut(text.one_line(entry.content), 80)
  add(it, { { (' '):rep(indent) }, { look[1] .. ' ', look[3] }, { title }, { failed or '', 'DeputyFailed' } })
  return it
end

local noted = {} ---@type table<string, deputy.Item>

--- Something that the server told the user.
---@param words string
---@return deputy.Item
function M.notice(words)
  if not noted[words] then
    local it = item({})
    add(it, { { 'ℹ ' .. text.one_line(words), 'DeputyDim' } })
    table.insert(it.lines, '')
    noted[words] = it
  end
  return noted[words]
end

local KEYS = {
  { 'approve', 'approve' },
  { 'approve_always', nil, 'allow_always' },
  { 'edit', 'edit first' },
  { 'deny', 'deny' },
  { 'deny_reason', 'deny with reason' },
  { 'go_to_code', 'go to the code' },
}

--- `a approve · A Always allow: edit_file(a.py) · …`
---@param asked deputy.PermissionRequest
---@param keys table<string, string|false>
---@return string[]
function M.choices(asked, keys)
  local shown, in_code = {}, asked.preview and asked.preview.type == 'diff'
  for _, row in ipairs(KEYS) do
    local key, word = keys[row[1]], row[2] or question.name(asked, row[3])
    key = (in_code or row[1] ~= 'go_to_code') and key
    if key and word then
      local name = vim.fn.keytrans(vim.api.nvim_replace_termcodes(key, true, true, true))
      table.insert(shown, (name:gsub('<lt>', '<')) .. ' ' .. word)
    end
  end
  return shown
end

--- Choices in as few lines as they need; none is broken.
---@param choices string[]
---@param width integer
---@return string[]
function M.wrapped(choices, width)
  local lines = {}
  for _, choice in ipairs(choices) do
    local longer = #lines > 0 and lines[#lines] .. ' · ' .. choice
    if longer and vim.fn.strdisplaywidth(longer) <= width then
      lines[#lines] = longer
    else
      table.insert(lines, choice)
    end
  end
  return lines
end

--- Where a question stands among those of its agent's response: `1 of 2`.
---@param asked deputy.PermissionRequest
---@return string
function M.place(asked)
  return ('%d of %d'):format(asked.batch.index + 1, asked.batch.size)
end

--- A question as a box of lines.
---@param asked deputy.PermissionRequest
---@param indent integer
---@param look deputy.Look
---@return deputy.Item
function M.question(asked, indent, look)
  local it, gap = item({}, { request = asked.requestId, agent = asked.agent.agentId }), (' '):rep(indent)
  local place = asked.batch.size > 1 and M.place(asked) .. '  ' or ''
  local title = text.one_line(asked.title)
  add(it, { { gap }, { '┌ ', 'DeputyQuestion' }, { place, 'DeputyDim' }, { title, 'DeputyQuestion' } })
  local lines = question.preview(asked)
  for index, line in ipairs(lines) do
    if index > MOST_DIFF then
      local more = ('… %s'):format(text.plural(#lines - MOST_DIFF, 'more line'))
      add(it, { { gap }, { '│ ', 'DeputyQuestion' }, { more, 'DeputyDim' } })
      break
    end
    add(it, { { gap }, { '│ ', 'DeputyQuestion' }, { line[1], line[2] } })
  end
  if asked.reason then
    add(it, { { gap }, { '│ ', 'DeputyQuestion' }, { text.one_line(asked.reason), 'DeputyDim' } })
  end
  local choices = M.wrapped(M.choices(asked, look.keys), look.width - indent - 4)
  for index, line in ipairs(choices) do
    add(it, { { gap }, { index < #choices and '│ ' or '└ ', 'DeputyQuestion' }, { line, 'DeputyKeys' } })
  end
  return it
end

-- -- agents ------------------------------------------------------------------------------------------------------

---@class deputy.Look
---@field open table<string, boolean> agents whose blocks are unfolded
---@field now number
---@field width integer of the window
---@field keys table<string, string|false>

local function width_of(pieces)
  return vim.iter(pieces):fold(0, function(sum, piece)
    return sum + vim.fn.strdisplaywidth(piece[1])
  end)
end

--- The line of an agent; what it does now is shown as far as there is room, and not where its calls are.
local function agent_line(state, node, look, lead, quiet)
  local states, it = M.state_of(state, node), item({}, { agent = node.agentId })
  it.aside = M.figures(node, look.now)
  local pieces = {
    { lead, 'DeputyDim' },
    { states[1] .. ' ', states[3] },
    { text.one_line(node.label), 'DeputyLabel' },
    { node.parentAgentId and '  ' .. M.kind_of(node) or '', 'DeputyDim' },
    { '  ' .. M.word_of(state, node), states[3] },
  }
  local function tight()
    return width_of(pieces) + vim.fn.strdisplaywidth(it.aside) + 2 > look.width
  end
  if tight() then
    pieces[4] = { '' }
  end
  if tight() then
    it.aside = it.aside:match('^(.-) · ')
  end
  local activity = node.status == 'running' and states ~= M.STATES.asking and state.activities[node.agentId]
  local used = width_of(pieces) + vim.fn.strdisplaywidth(it.aside) + 4
  if activity and not quiet and look.width - used >= SHORTEST then
    table.insert(pieces, { '  ' .. text.cut(text.one_line(activity), look.width - used), 'DeputyDim' })
  end
  add(it, pieces)
  return it
end

local items_of

--- A child: its line, and when it is unfolded its calls, its own children and how it ended; its questions always.
local function block(state, entry, look, indent, out)
  local node = state.agents[entry.agentId]
  local opened = look.open[node.agentId]
  table.insert(out, agent_line(state, node, look, (' '):rep(indent) .. (opened and '▾ ' or '▸ '), opened))
  if opened then
    items_of(state, node.agentId, look, indent + 2 * INDENT, node.label, out)
  end
  for _, asked in ipairs(reducer.questions_of(state, node.agentId)) do
    table.insert(out, M.question(asked, indent + INDENT, look))
  end
  if opened and node.error then
    local it = item({}, { agent = node.agentId })
    add(it, { { (' '):rep(indent + 2 * INDENT) }, { text.cut(text.one_line(node.error), 120), 'DeputyFailed' } })
    table.insert(out, it)
  end
end

--- Calls that a block stands for.
local function doors(entries)
  local found = {}
  for _, entry in ipairs(entries) do
    if entry.type == 'agent' and entry.toolCallId then
      found[entry.toolCallId] = true
    end
  end
  return found
end

items_of = function(state, agent_id, look, indent, label, out)
  local entries = state.transcripts[agent_id] or {}
  local hidden = doors(entries)
  for _, entry in ipairs(entries) do
    if entry.type == 'tool_call' and not hidden[entry.toolCallId] then
      table.insert(out, call(entry, indent, label))
    elseif entry.type == 'agent' and state.agents[entry.agentId].run == entry.run then
      block(state, entry, look, indent, out)
    end
  end
end

local spoken = setmetatable({}, { __mode = 'k' }) ---@type table<deputy.Entry, deputy.Item>

local function said(entry, speaker)
  spoken[entry] = spoken[entry] or message(entry.role, entry.text, speaker)
  return spoken[entry]
end

local STEPS = { pending = '☐', in_progress = '▸', completed = '☑' }

local function plan(steps, out)
  local it = item({})
  add(it, { { 'Plan', 'DeputyHeading' } })
  for _, step in ipairs(steps) do
    local group = step.status == 'completed' and 'DeputyDim' or step.status == 'in_progress' and 'DeputyRunning' or nil
    add(it, { { '  ' .. STEPS[step.status] .. ' ' .. text.one_line(step.content), group } })
  end
  table.insert(it.lines, '')
  table.insert(out, it)
end

local function queue(prompts, keys, out)
  for _, prompt in ipairs(prompts) do
    local it = item({}, { prompt = prompt.promptId })
    local back = keys.unqueue and ('  (%s takes it back)'):format(keys.unqueue) or ''
    add(it, { { '… queued  ', 'DeputyDim' }, { text.cut(text.one_line(prompt.text), 80) }, { back, 'DeputyDim' } })
    table.insert(out, it)
  end
end

local function turn(state, out)
  if not state.turnError then
    return
  end
  local it = item({})
  add(it, { { '✗ ' .. text.one_line(state.turnError.message), 'DeputyFailed' } })
  if state.turnError.action ~= '' then
    add(it, { { '  ' .. text.one_line(state.turnError.action), 'DeputyDim' } })
  end
  table.insert(out, it)
end

local function gap(out)
  local last = out[#out]
  if last and last.lines[#last.lines] ~= '' then
    table.insert(out, item({ '' }))
  end
end

--- An agent's thread: the primary's is the session.
---@param state deputy.State
---@param agent_id string
---@param look deputy.Look
---@return deputy.Item[]
function M.thread(state, agent_id, look)
  local out, entries = {}, state.transcripts[agent_id] or {}
  local hidden, node = doors(entries), state.agents[agent_id]
  -- What a child is told comes from its parent, as a rule.
  local speaker = agent_id ~= state.primary and 'Task' or nil
  for _, entry in ipairs(entries) do
    if entry.type == 'message' then
      gap(out)
      table.insert(out, said(entry, entry.role == 'user' and speaker or nil))
      speaker = entry.role == 'user' and speaker and 'Told' or speaker
    elseif entry.type == 'tool_call' and not hidden[entry.toolCallId] then
      table.insert(out, call(entry, INDENT, node and node.label))
    elseif entry.type == 'agent' and state.agents[entry.agentId] and state.agents[entry.agentId].run == entry.run then
      block(state, entry, look, 0, out)
    end
  end
  for _, id in ipairs(state.streams) do
    local stream = state.streaming[id]
    if stream.agentId == agent_id then
      gap(out)
      table.insert(out, message('assistant', stream.text))
    end
  end
  for _, asked in ipairs(reducer.questions_of(state, agent_id)) do
    table.insert(out, M.question(asked, 0, look))
  end
  if state.plans[agent_id] and #state.plans[agent_id] > 0 then
    gap(out)
    plan(state.plans[agent_id], out)
  end
  if agent_id == state.primary then
    turn(state, out)
    queue(state.promptQueue, look.keys, out)
  end
  return out
end

--- The agents of a session, indented by depth.
---@param state deputy.State
---@param look deputy.Look
---@return deputy.Item[]
function M.tree(state, look)
  local below, out = {}, {}
  for _, node in ipairs(reducer.tree(state)) do
    local key = node.parentAgentId or ''
    below[key] = below[key] or {}
    table.insert(below[key], node)
  end
  local function show(node)
    table.insert(out, agent_line(state, node, look, (' '):rep(INDENT * node.depth)))
    vim.iter(below[node.agentId] or {}):each(show)
  end
  vim.iter(below[''] or {}):each(show)
  return out
end

return M
