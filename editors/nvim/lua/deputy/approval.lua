--- Answers to permission requests. Only an option that the user selects is consent; nothing here answers automatically.

local client = require('deputy.client')
local session = require('deputy.session')
local text = require('deputy.text')

local M = {}

local function option(request, kind)
  return vim.iter(request.options):find(function(choice)
    return choice.kind == kind
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
function M.answer(request, kind, more, accepted)
  local choice = option(request, kind)
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

--- The name of the option of a kind. For a lasting answer it contains the rule that the answer adds.
---@param request deputy.PermissionRequest
---@param kind deputy.OptionKind
---@return string?
function M.name(request, kind)
  local choice = option(request, kind)
  return choice and text.one_line(choice.name)
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

--- Approves all open requests of the agent of `request`, after a confirmation that lists them.
---@param request deputy.PermissionRequest
function M.approve_agent(request)
  local own = vim.tbl_filter(function(other)
    return other.agent.agentId == request.agent.agentId
  end, session.requests())
  local titles = vim.tbl_map(function(other)
    return '  ' .. text.one_line(other.title)
  end, own)
  local ask = ('Approve all %s?\n%s'):format(text.plural(#own, 'request'), table.concat(titles, '\n'))
  -- Cancel is the default.
  if vim.fn.confirm(ask, '&Approve\n&Cancel', 2) ~= 1 then
    return
  end
  vim.iter(own):each(approved)
  answer_all(own, 'allow_once')
end

local function answering(kind)
  return function(request)
    M.answer(request, kind)
  end
end

--- The ways to answer a request, by the name of their key.
---@type table<string, fun(request: deputy.PermissionRequest)>
M.ANSWERS = {
  approve = answering('allow_once'),
  approve_always = answering('allow_always'),
  approve_agent = M.approve_agent,
  deny = answering('reject_once'),
  deny_reason = M.deny_with_reason,
  deny_always = answering('reject_always'),
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
  local function plain(whole)
    return whole and table.concat(text.lines(whole), '\n') or ''
  end
  local old, new = plain(preview.oldText), plain(preview.newText)
  local lines = {} ---@type deputy.Piece[]
  local diff = text.diff(old, new, { ctxlen = 2 }) --[[@as string]]
  for _, line in ipairs(vim.split(diff, '\n', { plain = true, trimempty = true })) do
    local first = line:sub(1, 1)
    local group = ({ ['+'] = 'DeputyAdd', ['-'] = 'DeputyDelete', ['@'] = 'DeputyHunk', ['\\'] = 'DeputyDim' })[first]
    table.insert(lines, { line, group })
  end
  return lines
end

local function preview_lines(request)
  local preview, lines = request.preview, {} ---@type deputy.Piece[]
  if not preview then
    return lines
  elseif preview.type == 'diff' then
    if preview.oldText == nil then
      table.insert(lines, { 'new file ' .. text.path(preview.uri), 'DeputyDim' })
    end
    return vim.list_extend(lines, diff_lines(preview))
  elseif preview.type == 'command' then
    table.insert(lines, { 'in ' .. text.path(preview.cwd), 'DeputyDim' })
    for index, line in ipairs(text.lines(preview.command)) do
      table.insert(lines, { (index == 1 and '$ ' or '  ') .. line, 'DeputyCommand' })
    end
    return lines
  end
  for _, line in ipairs(text.lines(preview.text)) do
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
