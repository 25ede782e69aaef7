--- A permission request as a box of lines: agent and title, the change or command, the reason, the keys. Pure.

local items = require('deputy.item')
local approval = require('deputy.approval')
local text = require('deputy.text')

local M = {}

--- Lines of a change or a command that are shown while the request is folded.
local MOST_LINES = 40
local NARROWEST = 20

--- In display order: action, the option whose name labels it, and whether it is shown only when the request is
--- unfolded.
local CHOICES = {
  { 'approve', 'allow_once' },
  { 'approve_always', 'allow_always' },
  { 'approve_project', 'allow_always', true, 'project' },
  { 'approve_user', 'allow_always', true, 'user' },
  { 'approve_agent' },
  { 'approve_edits', nil, true },
  { 'edit' },
  { 'deny', 'reject_once' },
  { 'deny_reason' },
  { 'deny_always', 'reject_always', true },
  { 'go_to_code' },
}

--- The name of an option. For a lasting answer it contains the rule that the answer adds.
local function name_of(request, kind, scope)
  local name = approval.name(request, kind, scope)
  return name and name:sub(1, 1):lower() .. name:sub(2)
end

--- `a approve`, `A always allow: edit_file(a.py)`, `ga approve all 3 of this agent`.
---@param request deputy.PermissionRequest
---@param keys table<string, string|false>
---@param own integer open requests of its agent
---@param whole boolean? include rare choices
---@return string[]
function M.choices(request, keys, own, whole)
  local shown, in_code = {}, request.preview and request.preview.newText ~= nil
  local words = {
    approve_agent = own > 1 and ('approve all %d of this agent'):format(own) or nil,
    approve_edits = request.preview and request.preview.type == 'diff' and 'approve all edits in this turn' or nil,
    edit = approval.can_edit(request) and 'edit first' or nil,
    deny_reason = 'deny with reason',
    go_to_code = in_code and 'go to the code' or nil,
  }
  for _, row in ipairs(CHOICES) do
    local action, option, rare, scope = unpack(row, 1, 4)
    local key = (whole or not rare) and keys[action]
    local word = words[action] or option and name_of(request, option, scope)
    if key and word then
      table.insert(shown, text.key(key) .. ' ' .. word)
    end
  end
  return shown
end

--- Choices in as few lines as possible; a choice that fits into one line is not broken.
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

--- The position of a request among those of its agent's response: `1 of 2`.
---@param request deputy.PermissionRequest
---@return string
function M.place(request)
  return ('%d of %d'):format(request.batch.index + 1, request.batch.size)
end

---@param request deputy.PermissionRequest
---@param indent integer
---@param look deputy.Look
---@param own integer open requests of its agent
---@return deputy.Item
function M.draw(request, indent, look, own)
  local item = items.new({ request = request.requestId, agent = request.agent.agentId })
  local gap = (' '):rep(indent)
  local function row(edge, ...)
    items.add(item, { { gap }, { edge .. ' ', 'DeputyApproval' }, ... })
  end
  local room = math.max(NARROWEST, look.width - indent - 3)
  local function rows(line, group, words)
    for _, part in ipairs(text.folded(line, room, words)) do
      row('│', { part, group })
    end
  end
  local place = request.batch.size > 1 and M.place(request) .. '  ' or ''
  row('┌', { place, 'DeputyDim' }, { text.cut(text.one_line(request.title), room - #place), 'DeputyApproval' })
  local lines = approval.preview(request)
  local most = look.open[request.requestId] and #lines or MOST_LINES
  for _, line in ipairs(vim.list_slice(lines, 1, most)) do
    rows(unpack(line, 1, 2))
  end
  if #lines > most then
    local how = look.keys.toggle and (', %s shows them'):format(text.key(look.keys.toggle)) or ''
    rows(('… %s%s'):format(text.plural(#lines - most, 'more line'), how), 'DeputyDim')
  end
  if request.reason then
    rows(text.one_line(request.reason), 'DeputyDim', true)
  end
  local choices = M.wrapped(M.choices(request, look.keys, own, look.open[request.requestId]), room)
  for index, line in ipairs(choices) do
    row(index < #choices and '│' or '└', { line, 'DeputyKeys' })
  end
  return item
end

return M
