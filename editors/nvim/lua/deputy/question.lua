--- Questions of agents and MCP servers: a box of lines, and the ways to answer. Only the user answers.

local client = require('deputy.client')
local items = require('deputy.item')
local text = require('deputy.text')

local M = {}

local NARROWEST = 20

local function send(request, outcome, values, accepted)
  local params = { requestId = request.requestId, outcome = outcome, values = values }
  client.request('deputy/input/answer', params, function(answer)
    if not answer.accepted then
      vim.notify('Deputy: that question is already answered.')
    elseif accepted then
      accepted()
    end
  end)
end

local function label(field)
  local name = field.title or field.name ~= 'answer' and field.name or 'Answer'
  return text.one_line(name) .. (field.required and '' or ' (optional)')
end

local DONE = {}

--- Offers the options again, with marks, until the user is done.
local function choose_several(field, marked, done)
  local choices = vim.list_extend({ DONE }, field.options)
  vim.ui.select(choices, {
    prompt = label(field),
    format_item = function(option)
      if option == DONE then
        return 'Done'
      end
      return (marked[option.value] and '[x] ' or '[ ] ') .. text.one_line(option.title)
    end,
  }, function(option)
    if not option then
      return
    elseif option == DONE then
      local values = {}
      for _, each in ipairs(field.options) do
        table.insert(values, marked[each.value] and each.value or nil)
      end
      return done(values)
    end
    marked[option.value] = not marked[option.value] or nil
    choose_several(field, marked, done)
  end)
end

--- Asks for the value of one field; an aborted input leaves the question open.
local function ask(field, done)
  if field.type == 'choices' then
    local marked = {}
    for _, value in ipairs(type(field.default) == 'table' and field.default or {}) do
      marked[value] = true
    end
    return choose_several(field, marked, done)
  elseif field.type == 'choice' or field.type == 'boolean' then
    local options = field.options or { { value = true, title = 'Yes' }, { value = false, title = 'No' } }
    return vim.ui.select(options, {
      prompt = label(field),
      format_item = function(option)
        return text.one_line(option.title)
      end,
    }, function(option)
      if option then
        done(option.value)
      end
    end)
  end
  local default = field.default ~= nil and tostring(field.default) or nil
  vim.ui.input({ prompt = label(field) .. ': ', default = default }, function(entered)
    if entered and entered ~= '' and field.type == 'number' then
      done(tonumber(entered) or entered)
    elseif entered then
      done(entered ~= '' and entered or nil)
    end
  end)
end

--- Asks for the fields one after the other, and sends the values; or opens the page of the question.
---@param request deputy.InputRequest
function M.answer(request)
  if request.url then
    return send(request, 'accepted', nil, function()
      vim.ui.open(request.url)
    end)
  end
  local values = vim.empty_dict()
  local function step(index)
    local field = request.fields[index]
    if not field then
      return send(request, 'accepted', values)
    end
    ask(field, function(value)
      values[field.name] = value
      step(index + 1)
    end)
  end
  step(1)
end

---@param request deputy.InputRequest
function M.decline(request)
  send(request, 'declined')
end

--- The ways to answer a question, by the name of their key.
---@type table<string, fun(request: deputy.InputRequest)>
M.ANSWERS = { approve = M.answer, deny = M.decline }

--- The lines of a question, without its frame.
local function lines_of(request)
  local lines = vim.deepcopy(text.exact_lines(request.message))
  table.insert(lines, request.url and text.exact(request.url) or nil)
  for _, field in ipairs(request.fields) do
    if field.title or field.description or #request.fields > 1 then
      table.insert(lines, table.concat({ label(field), field.description and text.one_line(field.description) }, ': '))
    end
    for _, option in ipairs(field.options or {}) do
      table.insert(lines, '  · ' .. text.one_line(option.title))
    end
  end
  return lines
end

---@param request deputy.InputRequest
---@param indent integer
---@param look deputy.Look
---@return deputy.Item
function M.draw(request, indent, look)
  local item = items.new({ request = request.requestId, agent = request.agent.agentId })
  local gap, room = (' '):rep(indent), math.max(NARROWEST, look.width - indent - 3)
  local function rows(edge, line, group)
    for _, part in ipairs(text.folded(line, room, true)) do
      items.add(item, { { gap }, { edge .. ' ', 'DeputyApproval' }, { part, group } })
    end
  end
  rows('┌', text.cut(text.one_line(request.title), room), 'DeputyApproval')
  for _, line in ipairs(lines_of(request)) do
    rows('│', line)
  end
  if request.server then
    rows('│', ('Asked by the MCP server %s.'):format(text.one_line(request.server)), 'DeputyDim')
  end
  local keys = {}
  for _, row in ipairs({ { 'approve', request.url and 'open the page' or 'answer' }, { 'deny', 'decline' } }) do
    local key = look.keys[row[1]]
    table.insert(keys, key and text.key(key) .. ' ' .. row[2] or nil)
  end
  rows('└', table.concat(keys, ' · '), 'DeputyKeys')
  return item
end

return M
