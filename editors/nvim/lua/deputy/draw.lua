--- A session as lines: pure functions from the state to the content of a window.

local box = require('deputy.box')
local calls = require('deputy.call')
local items = require('deputy.item')
local question = require('deputy.question')
local reducer = require('deputy.reducer')
local text = require('deputy.text')
local labels = require('deputy.labels')

local M = {}

---@class deputy.Look
---@field open table<string, boolean> ids of unfolded agents, calls and requests
---@field now number
---@field width integer cells of a line
---@field keys table<string, string|false>

--- Indent of nested blocks and calls.
local INDENT = 2
--- Minimum cells for a text beside another one.
local SHORTEST = 12
--- Cells; a label has as many characters, some of which take two cells.
local MOST_LABEL = 30
--- Lines of a sub-agent's answer below its line; its transcript has all.
local MOST_ANSWER = 40

-- -- messages ----------------------------------------------------------------------------------------------------

local SPEAKERS = { user = { 'You', 'DeputyUser' }, assistant = { 'Deputy', 'DeputyAssistant' } }

local function message(role, content, speaker)
  local who = SPEAKERS[role]
  local item = items.line({ { speaker or who[1], who[2] } })
  item.markdown = #item.lines
  vim.list_extend(item.lines, text.lines((content:gsub('%s+$', ''))))
  table.insert(item.lines, '')
  return item
end

local messages = setmetatable({}, { __mode = 'k' }) ---@type table<deputy.Entry, deputy.Item>

--- Cached: messages never change.
local function cached_message(entry, speaker)
  messages[entry] = messages[entry] or message(entry.role, entry.text, speaker)
  return messages[entry]
end

--- What the model thought: its first line, and all of it if it is unfolded.
local function thought(entry, look)
  local opened = look.open[entry.messageId]
  local item = items.new({ entry = entry, agent = entry.agentId })
  local first = text.cut(text.one_line(entry.text), look.width - text.width('▸ Thinking  '))
  items.add(item, { { opened and '▾ Thinking' or '▸ Thinking  ' .. first, 'DeputyDim' } })
  for _, line in ipairs(opened and text.lines(vim.trim(entry.text)) or {}) do
    for _, part in ipairs(text.folded(line, look.width - INDENT)) do
      items.add(item, { { (' '):rep(INDENT) .. part, 'DeputyDim' } })
    end
  end
  return item
end

local notices = {} ---@type table<string, deputy.Item>

--- A message of the server to the user.
---@param notice string
---@return deputy.Item
function M.notice(notice)
  if not notices[notice] then
    notices[notice] = items.line({ { 'ℹ ' .. text.one_line(notice), 'DeputyDim' } })
    table.insert(notices[notice].lines, '')
  end
  return notices[notice]
end

-- -- agents ------------------------------------------------------------------------------------------------------

--- The line of an agent. If space is short, first the definition is shortened, then figures are left out. The current
--- activity is shown as far as there is room, unless its calls are shown.
local function agent_line(state, node, look, lead, quiet)
  local states, item = labels.state_of(state, node), items.new({ agent = node.agentId })
  local activity = not quiet and states == labels.STATES.running and state.activities[node.agentId]
  item.aside = labels.figures(node, look.now)
  local pieces = {
    { lead, 'DeputyDim' },
    { states[1] .. ' ', states[3] },
    { text.cut(text.one_line(node.label), MOST_LABEL), 'DeputyLabel' },
    { node.parentAgentId and '  ' .. labels.definition_of(node) .. labels.own_model(state, node) or '', 'DeputyDim' },
    { '  ' .. labels.word_of(state, node), states[3] },
  }
  local function left()
    return look.width - items.width(pieces) - text.width(item.aside) - 2
  end
  if left() < (activity and SHORTEST or 0) then
    pieces[4][1] = labels.icon_of(node)
  end
  while left() < 0 and item.aside:find(' · ', 1, true) do
    item.aside = item.aside:match('^(.*) · ')
  end
  if left() < 0 then
    pieces[5][1] = text.cut(pieces[5][1], text.width(pieces[5][1]) + left())
  end
  local room = left() - 2
  if activity and room >= SHORTEST - 2 then
    table.insert(pieces, { '  ' .. text.cut(text.one_line(activity), room), 'DeputyDim' })
  end
  items.add(item, pieces)
  return item
end

local function boxes(state, agent_id, look, indent, out)
  local own = reducer.requests_of(state, agent_id)
  for _, request in ipairs(own) do
    table.insert(out, box.draw(request, indent, look, #own))
  end
  for _, request in ipairs(reducer.inputs_of(state, agent_id)) do
    table.insert(out, question.draw(request, indent, look))
  end
end

local items_of

--- The answer of a sub-agent that has ended: the last message of its transcript.
local function answer(state, node, look, indent, out)
  local last = vim.iter(vim.iter(state.transcripts[node.agentId] or {}):rev()):find(function(entry)
    return entry.type == 'message' and entry.role == 'assistant'
  end)
  if not last or not node.endedAt then
    return
  end
  local item = items.new({ agent = node.agentId, entry = last })
  for _, line in ipairs(text.first(text.lines(vim.trim(last.text)), MOST_ANSWER)) do
    for _, part in ipairs(text.folded(line, look.width - indent, true)) do
      items.add(item, { { (' '):rep(indent) .. part } })
    end
  end
  table.insert(out, item)
end

--- A sub-agent: its line, its open requests and, if unfolded, its calls, its own sub-agents and its error.
local function block(state, entry, look, indent, out)
  local node = state.agents[entry.agentId]
  local opened = look.open[node.agentId]
  table.insert(out, agent_line(state, node, look, (' '):rep(indent) .. (opened and '▾ ' or '▸ '), opened))
  if opened then
    items_of(state, node.agentId, look, indent + 2 * INDENT, node.label, out)
  end
  boxes(state, node.agentId, look, indent + INDENT, out)
  if opened then
    answer(state, node, look, indent + 2 * INDENT, out)
  end
  if opened and node.error then
    local why = text.cut(text.one_line(node.error), look.width - indent - 2 * INDENT)
    table.insert(
      out,
      items.line({ { (' '):rep(indent + 2 * INDENT) }, { why, 'DeputyFailed' } }, { agent = node.agentId })
    )
  end
end

--- Ids of calls that started an agent: the agent's block is shown instead.
local function delegation_calls(entries)
  local found = {}
  for _, entry in ipairs(entries) do
    if entry.type == 'agent' and entry.toolCallId then
      found[entry.toolCallId] = true
    end
  end
  return found
end

--- Calls and sub-agents, and messages if `on_message` is given.
items_of = function(state, agent_id, look, indent, label, out, on_message)
  local entries = state.transcripts[agent_id] or {}
  local hidden = delegation_calls(entries)
  for _, entry in ipairs(entries) do
    if entry.type == 'message' and on_message then
      on_message(entry)
    elseif entry.type == 'thought' and on_message then
      table.insert(out, thought(entry, look))
    elseif entry.type == 'tool_call' and not hidden[entry.toolCallId] then
      table.insert(out, calls.draw(state, entry, look, on_message and INDENT or indent, label))
    elseif entry.type == 'agent' and state.agents[entry.agentId] and state.agents[entry.agentId].run == entry.run then
      block(state, entry, look, indent, out)
    end
  end
end

-- -- transcripts -------------------------------------------------------------------------------------------------

local STEPS = { pending = '☐', in_progress = '▸', completed = '☑' }
local STEP_GROUPS = { completed = 'DeputyDim', in_progress = 'DeputyRunning' }

local function plan(steps, look, out)
  local item = items.line({ { 'Plan', 'DeputyHeading' } })
  for _, step in ipairs(steps) do
    local content = text.cut(text.one_line(step.content), look.width - 5)
    items.add(item, { { '  ' .. (STEPS[step.status] or STEPS.pending) .. ' ' .. content, STEP_GROUPS[step.status] } })
  end
  table.insert(item.lines, '')
  table.insert(out, item)
end

local function queue(prompts, look, out)
  for _, prompt in ipairs(prompts) do
    local hint = look.keys.unqueue and ('  (%s edits it)'):format(text.key(look.keys.unqueue)) or ''
    local room = math.max(SHORTEST, look.width - #hint - 11)
    local images = prompt.pictures and ('[images: %d]'):format(prompt.pictures) or nil
    local what = text.cut(vim.trim(('%s %s'):format(text.one_line(prompt.text), images or '')), room)
    local pieces = { { '… queued  ', 'DeputyDim' }, { what }, { hint, 'DeputyDim' } }
    table.insert(out, items.line(pieces, { prompt = prompt.promptId }))
  end
end

--- Why the session stopped: the error, interruption or limit that ended the last turn, and what to do.
local function failure(state, look, out)
  local ended = state.ended or {}
  local what, advice
  local style = 'DeputyFailed'
  if state.snapshot then
    style = 'DeputyDim'
    what = 'Open in another Deputy process: this is its state at ' .. os.date('%H:%M', state.snapshot) .. '.'
    advice = ':DeputySessions reloads it.'
  elseif ended.error then
    what, advice = '✗ ' .. text.one_line(ended.error.message), text.one_line(ended.error.action)
  elseif ended.detail then
    what, advice = '✗ Stopped: ' .. text.one_line(ended.detail), ''
  elseif ended.interrupted then
    local key = look.keys.continue
    what = '✗ The last turn was interrupted: the server ended.'
    advice = ('%s resumes it.'):format(key and text.key(key) or ':DeputyContinue')
  else
    return
  end
  local item = items.line({ { what, style } })
  if advice ~= '' then
    items.add(item, { { '  ' .. advice, 'DeputyDim' } })
  end
  table.insert(out, item)
end

local function gap(out)
  local last = out[#out]
  if last and last.lines[#last.lines] ~= '' then
    table.insert(out, items.plain({ '' }))
  end
end

--- Whether the agent has unfinished calls, which already show what it waits for.
local function calling(state, agent_id)
  local entries = state.transcripts[agent_id] or {}
  for index = #entries, 1, -1 do
    local entry = entries[index]
    if entry.type == 'tool_call' and (entry.status == 'pending' or entry.status == 'in_progress') then
      return true
    elseif entry.type == 'message' then
      return false
    end
  end
  return false
end

--- The status of an agent without unfinished calls: thinking, or waiting for the model.
local function thinking(state, node, look, out)
  if node.status ~= 'running' or calling(state, node.agentId) then
    return
  end
  local since = node.parentAgentId and node.startedAt or state.turnSince
  local elapsed = since and '  ' .. text.duration(look.now - text.seconds(since)) or ''
  local what = text.cut(text.one_line(state.details[node.agentId] or 'thinking'), look.width - #elapsed - 3)
  gap(out)
  table.insert(out, items.line({ { '⟳ ' .. what, 'DeputyRunning' }, { elapsed, 'DeputyDim' } }))
end

--- Adds streaming messages; returns whether there are any.
local function streams(state, agent_id, out)
  local any = false
  for _, id in ipairs(state.streams) do
    local stream = state.streaming[id]
    if stream.agentId == agent_id then
      gap(out)
      table.insert(out, message('assistant', stream.text))
      any = true
    end
  end
  return any
end

--- In a snapshot of a session that is open elsewhere, clocks show the time of the snapshot.
local function at_its_time(state, look)
  return state.snapshot and vim.tbl_extend('force', look, { now = state.snapshot }) or look
end

--- An agent's transcript; the primary's is the session.
---@param state deputy.State
---@param agent_id string
---@param look deputy.Look
---@return deputy.Item[]
function M.transcript(state, agent_id, look)
  look = at_its_time(state, look)
  local out, node = {}, state.agents[agent_id]
  -- Messages to a sub-agent usually come from its parent.
  local speaker = agent_id ~= state.primary and 'Task' or nil
  if state.earlier[agent_id] then
    local key = look.keys.open and text.key(look.keys.open) .. ' shows them' or ''
    local pieces = { { '▴ Earlier messages', 'DeputyHeading' }, { '  ' .. key, 'DeputyDim' } }
    table.insert(out, items.line(pieces, { earlier = agent_id }))
    speaker = speaker and 'Message'
  end
  items_of(state, agent_id, look, 0, node.label, out, function(entry)
    gap(out)
    table.insert(out, cached_message(entry, entry.role == 'user' and speaker or nil))
    speaker = entry.role == 'user' and speaker and 'Message' or speaker
  end)
  local streaming = streams(state, agent_id, out)
  boxes(state, agent_id, look, 0, out)
  if state.plans[agent_id] and #state.plans[agent_id] > 0 then
    gap(out)
    plan(state.plans[agent_id], look, out)
  end
  if not streaming then
    thinking(state, node, look, out)
  end
  if agent_id == state.primary then
    failure(state, look, out)
    queue(state.promptQueue, look, out)
  end
  return out
end

--- The agents of a session, indented by depth.
---@param state deputy.State
---@param look deputy.Look
---@return deputy.Item[]
function M.tree(state, look)
  look = at_its_time(state, look)
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

--- `g? keys · <Tab> unfold`: hints for a status line.
---@param hints { [1]: string, [2]: string }[] action and word
---@param keys table<string, string|false>
---@return string
function M.hints(hints, keys)
  local parts = {}
  for _, hint in ipairs(hints) do
    local key = keys[hint[1]]
    if key then
      table.insert(parts, text.key(key) .. ' ' .. hint[2])
    end
  end
  return text.bar(table.concat(parts, ' · '))
end

return M
