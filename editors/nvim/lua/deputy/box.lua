--- A question as a box of lines: who asks for what, the change or the command, why it is asked, the keys. Pure.

local items = require('deputy.item')
local question = require('deputy.question')
local text = require('deputy.text')

local M = {}

--- Lines of a change or a command that are shown at first.
local MOST_LINES = 40
local NARROWEST = 20

--- In the order of showing: action, the option whose name is its word, and whether it is rare: then it is shown where a
--- question is unfolded.
local CHOICES = {
  { 'approve', 'allow_once' },
  { 'approve_always', 'allow_always' },
  { 'approve_agent' },
  { 'edit' },
  { 'deny', 'reject_once' },
  { 'deny_reason' },
  { 'deny_always', 'reject_always', true },
  { 'go_to_code' },
}

--- The name of an option, which spells out the rule that a lasting answer adds.
local function name_of(asked, kind)
  local name = question.name(asked, kind)
  return name and name:sub(1, 1):lower() .. name:sub(2)
end

--- `a approve`, `A always allow: edit_file(a.py)`, `ga approve all 3 of this agent`.
---@param asked deputy.PermissionRequest
---@param keys table<string, string|false>
---@param own integer open questions of its agent
---@param whole boolean? the rare ones too
---@return string[]
function M.choices(asked, keys, own, whole)
  local shown, in_code = {}, asked.preview and asked.preview.type == 'diff'
  local words = {
    approve_agent = own > 1 and ('approve all %d of this agent'):format(own) or nil,
    edit = question.can_edit(asked) and 'edit first' or nil,
    deny_reason = 'deny with reason',
    go_to_code = in_code and 'go to the code' or nil,
  }
  for _, row in ipairs(CHOICES) do
    local action, option, rare = unpack(row, 1, 3)
    local key = (whole or not rare) and keys[action]
    local word = words[action] or option and name_of(asked, option)
    if key and word then
      table.insert(shown, text.key(key) .. ' ' .. word)
    end
  end
  return shown
end

--- Choices in as few lines as they need; none is broken that fits into one.
---@param choices string[]
---@param width integer
---@return string[]
function M.wrapped(choices, width)
  local lines = {}
  for _, choice in ipairs(choices) do
    local longer = #lines > 0 and lines[#lines] .. ' · ' .. choice
    if longer and text.width(longer) <= width then
      lines[#lines] = longer
    else
      vim.list_extend(lines, text.folded(choice, width))
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

---@param asked deputy.PermissionRequest
---@param indent integer
---@param look deputy.Look
---@param own integer open questions of its agent
---@return deputy.Item
function M.draw(asked, indent, look, own)
  local item = items.new({ request = asked.requestId, agent = asked.agent.agentId })
  local gap = (' '):rep(indent)
  local function row(edge, ...)
    items.add(item, { { gap }, { edge .. ' ', 'DeputyQuestion' }, ... })
  end
  local room = math.max(NARROWEST, look.width - indent - 3)
  local function rows(line, group, words)
    for _, part in ipairs(text.folded(line, room, words)) do
      row('│', { part, group })
    end
  end
  local place = asked.batch.size > 1 and M.place(asked) .. '  ' or ''
  row('┌', { place, 'DeputyDim' }, { text.cut(text.one_line(asked.title), room - #place), 'DeputyQuestion' })
  local lines = question.preview(asked)
  local most = look.open[asked.requestId] and #lines or MOST_LINES
  for _, line in ipairs(vim.list_slice(lines, 1, most)) do
    rows(unpack(line, 1, 2))
  end
  if #lines > most then
    local how = look.keys.toggle and (', %s shows them'):format(text.key(look.keys.toggle)) or ''
    rows(('… %s%s'):format(text.plural(#lines - most, 'more line'), how), 'DeputyDim')
  end
  if asked.reason then
    rows(text.one_line(asked.reason), 'DeputyDim', true)
  end
  local choices = M.wrapped(M.choices(asked, look.keys, own, look.open[asked.requestId]), room)
  for index, line in ipairs(choices) do
    row(index < #choices and '│' or '└', { line, 'DeputyKeys' })
  end
  return item
end

return M
