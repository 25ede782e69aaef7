--- Answers to permission requests. Only an option that the user selects is consent; nothing here answers automatically.

local client = require('deputy.client')
local session = require('deputy.session')
local text = require('deputy.text')

local M = {}

--- The option of a kind, and of a scope if one is named.
local function option(request, kind, scope)
  return vim.iter(request.options):find(function(choice)
    return choice.kind == kind and (scope == nil or choice.scope == scope)
  end)
end

--- Records an approved call, so that its failure is reported.
local function approved(request)
  local own = session.sessions[request.sessionId]
  if own then
    own.approved[request.toolCallId] = true
  end
end

local function send(request, outcome, accepted)
  local params = { requestId = request.requestId, outcome = outcome }
  client.request('deputy/permission/answer', params, function(answer)
    if not answer.accepted then
      vim.notify('Deputy: that request is already settled.')
    elseif accepted then
      accepted()
    end
  end)
end

--- Gives the same answer to the requests that were shown, and to no other.
local function answer_all(requests, kind)
  local ids = vim.tbl_map(function(request)
    return request.requestId
  end, requests)
  local outcome = { outcome = 'selected', optionId = option(requests[1], kind).optionId }
  local params = { requestIds = ids, outcome = outcome }
  client.request('deputy/permission/answerMany', params, function(answer)
    if #answer.accepted < #ids then
      vim.notify(('Deputy: %d of %d were already settled.'):format(#ids - #answer.accepted, #ids))
    end
  end)
end

--- Selects the option of a kind.
---@param request deputy.PermissionRequest
---@param kind deputy.OptionKind
---@param more { feedback: string?, input: table? }?
---@param accepted fun()? when it was the first answer
---@param scope deputy.RuleScope? the narrowest one when absent
function M.answer(request, kind, more, accepted, scope)
  local choice = option(request, kind, scope)
  if not choice then
    vim.notify('Deputy: this request has no such answer.', vim.log.levels.WARN)
    return
  end
  if vim.startswith(kind, 'allow') then
    approved(request)
  end
  send(request, vim.tbl_extend('error', { outcome = 'selected', optionId = choice.optionId }, more or {}), accepted)
end

--- Whether the call can be edited before it is approved: the command of an MCP server is in a configuration file.
---@param request deputy.PermissionRequest
---@return boolean
function M.can_edit(request)
  return request.tool ~= 'mcp'
end

--- Cells of a rule that the name of its answer contains.
local MOST_IN_NAME = 60

--- The rules of a lasting answer that its name does not contain: several, or a long one.
---@param choice deputy.PermissionOption
---@return string[]
local function rules_to_list(choice)
  local rules = vim.tbl_map(text.exact, choice.rules or {})
  return (#rules > 1 or #rules == 1 and text.width(rules[1]) > MOST_IN_NAME) and rules or {}
end

--- What a lasting answer does, without its rules.
local function verb(choice)
  return text.exact(choice.name):match('^[^:]*')
end

--- The name of the option of a kind: complete, or with the number of the rules that the answer lists before it adds them.
---@param request deputy.PermissionRequest
---@param kind deputy.OptionKind
---@param scope deputy.RuleScope?
---@return string?
function M.name(request, kind, scope)
  local choice = option(request, kind, scope)
  local rules = choice and rules_to_list(choice) or {}
  if #rules > 0 then
    return ('%s %s…'):format(verb(choice), text.plural(#rules, 'rule'))
  end
  return choice and text.exact(choice.name)
end

--- Asks for confirmation, with all lines of `what` on the screen before a key answers. Cancel is the default.
local function confirmed(question, what, answer)
  local more = vim.o.more
  vim.o.more = true
  local lines = table.concat(what, '\n')
  local choice = vim.fn.confirm(('%s\n%s'):format(question, lines), ('&%s\n&Cancel'):format(answer), 2)
  vim.o.more = more
  return choice == 1
end

--- Denies with a reason for the agent; an aborted input leaves the request open.
---@param request deputy.PermissionRequest
function M.deny_with_reason(request)
  vim.ui.input({ prompt = 'Reason: ' }, function(reason)
    if reason and vim.trim(reason) ~= '' then
      M.answer(request, 'reject_once', { feedback = reason })
    end
  end)
end

--- The lines of a request in a list: its title, and all of its change, command or text.
local function in_list(request)
  local lines, preview = { '  ' .. text.one_line(request.title) }, request.preview
  if preview and preview.type == 'diff' then
    for _, piece in ipairs(M.preview(request)) do
      table.insert(lines, '    ' .. piece[1])
    end
  elseif preview then
    for _, line in ipairs(text.exact_lines(preview.command or preview.text)) do
      table.insert(lines, '    ' .. line)
    end
  end
  return lines
end

--- Approves all open requests of the agent of `request`, after a confirmation that lists them.
---@param request deputy.PermissionRequest
function M.approve_agent(request)
  local own = vim.tbl_filter(function(other)
    return other.agent.agentId == request.agent.agentId
  end, session.requests())
  local what = vim.iter(own):map(in_list):flatten():totable()
  if not confirmed(('Approve all %s?'):format(text.plural(#own, 'request')), what, 'Approve') then
    return
  end
  vim.iter(own):each(approved)
  answer_all(own, 'allow_once')
end

--- Approves all edits of the agent of `request` until the turn ends, after a confirmation with the combined change of
--- the open ones.
---@param request deputy.PermissionRequest
function M.approve_edits(request)
  local own = vim.tbl_filter(function(other)
    return other.agent.agentId == request.agent.agentId and other.preview and other.preview.type == 'diff'
  end, session.requests())
  if #own == 0 then
    vim.notify('Deputy: this request is no edit.')
    return
  end
  local what = vim.iter(own):map(in_list):flatten():totable()
  if not confirmed('Approve these and all further edits of this agent in this turn?', what, 'Approve') then
    return
  end
  vim.iter(own):each(approved)
  client.request('deputy/permission/approveEdits', { requestId = own[1].requestId }, function() end)
end

local function answering(kind)
  return function(request)
    M.answer(request, kind)
  end
end

--- Lists the rules first, if the name of the answer does not contain them.
local function lasting(kind, scope)
  return function(request)
    local choice = option(request, kind, scope)
    local rules = choice and rules_to_list(choice) or {}
    local question = ('%s, %s:'):format(choice and verb(choice) or '', text.plural(#rules, 'rule'))
    local lines = vim.tbl_map(function(rule)
      return '  ' .. rule
    end, rules)
    if #rules == 0 or confirmed(question, lines, vim.startswith(kind, 'allow') and 'Allow' or 'Deny') then
      M.answer(request, kind, nil, nil, scope)
    end
  end
end

--- The ways to answer a request, by the name of their key.
---@type table<string, fun(request: deputy.PermissionRequest)>
M.ANSWERS = {
  approve = answering('allow_once'),
  approve_always = lasting('allow_always'),
  approve_project = lasting('allow_always', 'project'),
  approve_user = lasting('allow_always', 'user'),
  approve_agent = M.approve_agent,
  approve_edits = M.approve_edits,
  deny = answering('reject_once'),
  deny_reason = M.deny_with_reason,
  deny_always = lasting('reject_always'),
  edit = function(request)
    if M.can_edit(request) then
      require('deputy.proposal').edit(request)
    else
      vim.notify('Deputy: there is nothing to edit in this request.')
    end
  end,
}

-- -- preview -----------------------------------------------------------------------------------------------------

local function diff_lines(preview)
  local old, new = text.exact_lines(preview.oldText or '', preview.newText)
  local lines = {} ---@type deputy.Piece[]
  local diff = text.diff(table.concat(old, '\n'), table.concat(new, '\n'), { ctxlen = 2 }) --[[@as string]]
  for _, line in ipairs(vim.split(diff, '\n', { plain = true, trimempty = true })) do
    local first = line:sub(1, 1)
    local group = ({ ['+'] = 'DeputyAdd', ['-'] = 'DeputyDelete', ['@'] = 'DeputyHunk', ['\\'] = 'DeputyDim' })[first]
    table.insert(lines, { line, group })
  end
  return lines
end

--- A change as lines with their highlight groups.
---@param diff deputy.EditDiff
---@return deputy.Piece[]
function M.hunk_lines(diff)
  local lines = {} ---@type deputy.Piece[]
  for _, hunk in ipairs(diff.hunks) do
    local head = ('@@ -%d,%d +%d,%d @@'):format(hunk.oldStart, hunk.oldCount, hunk.newStart, hunk.newCount)
    table.insert(lines, { head, 'DeputyHunk' })
    for _, line in ipairs(hunk.lines) do
      local group = ({ ['+'] = 'DeputyAdd', ['-'] = 'DeputyDelete', ['\\'] = 'DeputyDim' })[line:sub(1, 1)]
      table.insert(lines, { text.exact_lines(line)[1], group })
    end
  end
  if diff.truncated then
    table.insert(lines, { 'The change is too large to be shown completely.', 'DeputyDim' })
  end
  return lines
end

local function preview_lines(request)
  local preview, lines = request.preview, {} ---@type deputy.Piece[]
  if not preview then
    return lines
  elseif preview.hunks then
    return M.hunk_lines(preview)
  elseif preview.type == 'diff' then
    if preview.oldText == nil then
      table.insert(lines, { 'new file ' .. text.path(preview.uri), 'DeputyDim' })
    end
    return vim.list_extend(lines, diff_lines(preview))
  elseif preview.type == 'command' then
    table.insert(lines, { 'in ' .. text.path(preview.cwd), 'DeputyDim' })
    for index, line in ipairs(text.exact_lines(preview.command)) do
      table.insert(lines, { (index == 1 and '$ ' or '  ') .. line, 'DeputyCommand' })
    end
    return lines
  end
  for _, line in ipairs(text.exact_lines(preview.text)) do
    table.insert(lines, { line })
  end
  return lines
end

local previews = setmetatable({}, { __mode = 'k' }) ---@type table<deputy.PermissionRequest, deputy.Piece[]>

--- The requested change or command, as lines with their highlight groups.
---@param request deputy.PermissionRequest
---@return deputy.Piece[]
function M.preview(request)
  previews[request] = previews[request] or preview_lines(request)
  return previews[request]
end

return M
