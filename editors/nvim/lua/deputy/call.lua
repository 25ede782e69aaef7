--- A tool call of a transcript as lines: its title and state and, if it is unfolded, its output or change. Pure.

local approval = require('deputy.approval')
local items = require('deputy.item')
local labels = require('deputy.labels')
local text = require('deputy.text')

local M = {}

--- Indent of what is below a call.
local INDENT = 2
--- Minimum cells for a text beside a title.
local SHORTEST = 12
--- Lines of an output, and of a change.
local MOST_OUTPUT = 40
local MOST_DIFF = 60
--- Last lines of a running command's output that are shown.
local TAIL = 3

--- The title of a call without the label of its agent.
local function title_of(entry, label)
  local title, prefix = entry.title, label and ('[%s] '):format(label)
  if prefix and vim.startswith(title, prefix) then
    title = title:sub(#prefix + 1)
  end
  return text.one_line(title)
end

--- Lines shown below an unfolded edit: the change, and what the result has beside the changed lines.
local function edit_of(entry)
  local lines = approval.hunk_lines(entry.diff)
  local more = #lines - MOST_DIFF
  lines = vim.list_slice(lines, 1, MOST_DIFF)
  if more > 0 then
    table.insert(lines, { ('… %s'):format(text.plural(more, 'more line')), 'DeputyDim' })
  end
  local beside = vim.trim((entry.content or ''):match('\n(.*)') or '')
  for _, line in ipairs(beside ~= '' and text.lines(beside) or {}) do
    table.insert(lines, { line, 'DeputyDim' })
  end
  return lines
end

--- Lines shown below a call: the last lines of its output while it runs, all of it if it is unfolded.
local function output_of(state, entry, look)
  local lines
  if entry.status == 'in_progress' then
    lines = text.lines(vim.trim(state.outputs[entry.toolCallId] or ''))
    lines = vim.list_slice(lines, math.max(1, #lines - TAIL + 1))
  elseif not look.open[entry.toolCallId] then
    return {}
  elseif entry.diff then
    return edit_of(entry)
  else
    lines = text.first(text.lines(vim.trim(entry.content or '')), MOST_OUTPUT)
  end
  return vim.tbl_map(function(line)
    return { line, 'DeputyDim' }
  end, lines)
end

--- `+3 −1`: the lines that an edit has added and removed.
local function counts_of(diff)
  local counts = { ['+'] = 0, ['-'] = 0 }
  for _, hunk in ipairs(diff.hunks) do
    for _, line in ipairs(hunk.lines) do
      local sign = line:sub(1, 1)
      counts[sign] = counts[sign] and counts[sign] + 1
    end
  end
  return ('+%d −%d'):format(counts['+'], counts['-'])
end

local function draw(state, entry, look, indent, label)
  local status, item =
    labels.CALLS[entry.status] or labels.CALLS.pending, items.new({ entry = entry, agent = entry.agentId })
  local room = look.width - indent - 3
  local title = text.cut(title_of(entry, label), room)
  local left = room - text.width(title) - 2
  local failed = entry.status == 'failed' and not look.open[entry.toolCallId]
  local why = failed and text.one_line(entry.content) or entry.diff and counts_of(entry.diff)
  local beside = why and why ~= '' and left >= SHORTEST and '  ' .. text.cut(why, left) or ''
  items.add(item, {
    { (' '):rep(indent) },
    { status[1] .. ' ', status[3] },
    { title },
    { beside, failed and status[3] or 'DeputyDim' },
  })
  for _, line in ipairs(output_of(state, entry, look)) do
    for _, part in ipairs(text.folded(line[1], room - INDENT)) do
      items.add(item, { { (' '):rep(indent + INDENT) }, { part, line[2] } })
    end
  end
  return item
end

local drawn = setmetatable({}, { __mode = 'k' }) ---@type table<deputy.Entry, { key: string, item: deputy.Item }>

--- Cached for finished calls, which never change, per width, indent and fold.
---@param state deputy.State
---@param entry deputy.Entry
---@param look deputy.Look
---@param indent integer
---@param label string? of its agent, if it is a sub-agent
---@return deputy.Item
function M.draw(state, entry, look, indent, label)
  if entry.status == 'in_progress' then
    return draw(state, entry, look, indent, label)
  end
  local key = ('%d %d %s'):format(look.width, indent, look.open[entry.toolCallId] and 'open' or '')
  if not drawn[entry] or drawn[entry].key ~= key then
    drawn[entry] = { key = key, item = draw(state, entry, look, indent, label) }
  end
  return drawn[entry].item
end

return M
