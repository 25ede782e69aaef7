--- Answers to questions. Only the user's own choice of an option is consent; nothing here answers by itself.

local client = require('deputy.client')
local session = require('deputy.session')
local text = require('deputy.text')

local M = {}

local function option(question, kind)
  return vim.iter(question.options):find(function(choice)
    return choice.kind == kind
  end)
end

--- Remembers what was approved, so that a failure of it is told.
local function approved(question)
  local own = session.sessions[question.sessionId]
  if own then
    own.approved[question.toolCallId] = true
  end
end

local function send(question, outcome, accepted)
  local params = { requestId = question.requestId, outcome = outcome }
  client.request('deputy/permission/answer', params, function(answer)
    if not answer.accepted then
      vim.notify('Deputy: that question was settled before.')
    elseif accepted then
      accepted()
    end
  end)
end

--- Gives the same answer to several questions: to those that were shown, and to no other.
local function answer_all(questions, kind)
  local ids = vim.tbl_map(function(question)
    return question.requestId
  end, questions)
  local outcome = { outcome = 'selected', optionId = option(questions[1], kind).optionId }
  local params = { requestIds = ids, outcome = outcome }
  client.request('deputy/permission/answerMany', params, function(answer)
    if #answer.accepted < #ids then
      vim.notify(('Deputy: %d of %d had been settled before.'):format(#ids - #answer.accepted, #ids))
    end
  end)
end

--- Chooses the option of a kind.
---@param question deputy.PermissionRequest
---@param kind deputy.OptionKind
---@param more { feedback: string?, input: table? }?
---@param accepted fun()? when it was the first answer
function M.answer(question, kind, more, accepted)
  local choice = option(question, kind)
  if not choice then
    vim.notify('Deputy: this question cannot be answered so.', vim.log.levels.WARN)
    return
  end
  if vim.startswith(kind, 'allow') then
    approved(question)
  end
  send(question, vim.tbl_extend('error', { outcome = 'selected', optionId = choice.optionId }, more or {}), accepted)
end

--- Whether the call can be approved as something else: what starts an MCP server stands in a file.
---@param question deputy.PermissionRequest
---@return boolean
function M.can_edit(question)
  return question.tool ~= 'mcp'
end

--- The name of the option of a kind, which spells out the rule that a lasting answer adds.
---@param question deputy.PermissionRequest
---@param kind deputy.OptionKind
---@return string?
function M.name(question, kind)
  local choice = option(question, kind)
  return choice and text.one_line(choice.name)
end

--- Denies with words for the agent; an aborted input leaves the question open.
---@param question deputy.PermissionRequest
function M.deny_with_reason(question)
  vim.ui.input({ prompt = 'Why not? ' }, function(reason)
    if reason and vim.trim(reason) ~= '' then
      M.answer(question, 'reject_once', { feedback = reason })
    end
  end)
end

--- Approves all open questions of the agent of `question`, each named, once the user has confirmed their number.
---@param question deputy.PermissionRequest
function M.approve_agent(question)
  local own = vim.tbl_filter(function(other)
    return other.agent.agentId == question.agent.agentId
  end, session.questions())
  local titles = vim.tbl_map(function(other)
    return '  ' .. text.one_line(other.title)
  end, own)
  local ask = ('Approve all %s?\n%s'):format(text.plural(#own, 'question'), table.concat(titles, '\n'))
  -- The refusing answer is the default.
  if vim.fn.confirm(ask, '&Approve\n&No', 2) ~= 1 then
    return
  end
  vim.iter(own):each(approved)
  answer_all(own, 'allow_once')
end

local function answering(kind)
  return function(question)
    M.answer(question, kind)
  end
end

--- The ways to answer a question, by the name of their key.
---@type table<string, fun(question: deputy.PermissionRequest)>
M.ANSWERS = {
  approve = answering('allow_once'),
  approve_always = answering('allow_always'),
  approve_agent = M.approve_agent,
  deny = answering('reject_once'),
  deny_reason = M.deny_with_reason,
  deny_always = answering('reject_always'),
  edit = function(question)
    if M.can_edit(question) then
      require('deputy.proposal').edit(question)
    else
      vim.notify('Deputy: there is nothing to edit in this question.')
    end
  end,
}

-- -- what a question shows ---------------------------------------------------------------------------------------

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

local function preview_lines(question)
  local preview, lines = question.preview, {} ---@type deputy.Piece[]
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

--- What is to be done, as lines with their highlight groups.
---@param question deputy.PermissionRequest
---@return deputy.Piece[]
function M.preview(question)
  previews[question] = previews[question] or preview_lines(question)
  return previews[question]
end

return M
