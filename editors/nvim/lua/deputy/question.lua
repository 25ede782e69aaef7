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

-- -- editing a proposal ------------------------------------------------------------------------------------------

--- The part of a tool's input that is worth editing.
local EDITABLE = { edit_file = 'new_string', write_file = 'content', shell = 'command' }

local function edited(question, lines)
  local field, written = EDITABLE[question.tool], table.concat(lines, '\n')
  if field and type(question.input[field]) == 'string' then
    local input = vim.deepcopy(question.input)
    -- A buffer cannot show whether its last line ends: it ends as the proposal does.
    local ends = vim.endswith(question.input[field], '\n')
    input[field] = written .. (ends and written ~= '' and '\n' or '')
    return input
  end
  return vim.json.decode(written)
end

local function proposal(question)
  local field = EDITABLE[question.tool]
  if field and type(question.input[field]) == 'string' then
    return (question.input[field]:gsub('\n$', ''))
  end
  return vim.json.encode(question.input)
end

local function written(buf, question)
  local ok, input = pcall(edited, question, vim.api.nvim_buf_get_lines(buf, 0, -1, false))
  if not ok then
    vim.notify('Deputy: that is no JSON object.', vim.log.levels.ERROR)
    return
  end
  vim.bo[buf].modified = false
  -- What came too late stays, for whatever the user wants to do with it.
  M.answer(question, 'allow_once', { input = input }, function()
    pcall(vim.api.nvim_buf_delete, buf, { force = true })
  end)
end

--- Only a write that the user meant for a proposal approves it. What writes all changed buffers finds none here, since
--- a proposal never counts as changed, and what writes from another window is refused.
local function guard(buf, question)
  local inside = true
  local function unchanged()
    vim.bo[buf].modified = false
  end
  vim.api.nvim_buf_attach(buf, false, { on_lines = unchanged })
  vim.api.nvim_create_autocmd({ 'TextChanged', 'TextChangedI', 'TextChangedP' }, { buffer = buf, callback = unchanged })
  -- The buffer that is written is always the current one while it is, but these events come from the user alone.
  vim.api.nvim_create_autocmd({ 'BufEnter', 'WinEnter', 'BufLeave', 'WinLeave' }, {
    buffer = buf,
    callback = function(event)
      inside = vim.endswith(event.event, 'Enter')
    end,
  })
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    buffer = buf,
    callback = function()
      if inside then
        written(buf, question)
      else
        vim.notify('Deputy: a proposal is approved by `:w` in its own window.', vim.log.levels.WARN)
      end
    end,
  })
end

local proposals = {} ---@type table<string, integer> buffers, by request

--- Opens what an agent proposes in a buffer of its own: writing it approves it as written, closing it does nothing.
---@param question deputy.PermissionRequest
function M.edit(question)
  -- In whichever tab page it is.
  local open = vim.fn.win_findbuf(proposals[question.requestId] or -1)[1]
  if open then
    return vim.api.nvim_set_current_win(open)
  end
  local buf = vim.api.nvim_create_buf(false, true)
  proposals[question.requestId] = buf
  vim.bo[buf].buftype, vim.bo[buf].bufhidden = 'acwrite', 'wipe'
  local place = question.locations[1]
  local file = place and vim.uri_to_fname(place.uri)
  local what = file and vim.fs.basename(file) or question.tool
  vim.api.nvim_buf_set_name(buf, ('deputy://proposal/%s/%s'):format(question.requestId:sub(-6), what))
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(proposal(question), '\n', { plain = true }))
  vim.bo[buf].modified = false
  vim.cmd('botright split')
  vim.api.nvim_win_set_buf(0, buf)
  vim.bo[buf].filetype = question.tool == 'shell' and 'sh' or file and vim.filetype.match({ filename = file }) or 'json'
  local hint = '   :w approves it as written   :q leaves the question open '
  local room = math.max(1, vim.api.nvim_win_get_width(0) - #hint - 1)
  vim.wo[0][0].winbar = text.bar(text.cut(text.one_line(question.title), room) .. hint)
  guard(buf, question)
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
  edit = M.edit,
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
    for _, line in ipairs(text.lines(preview.command)) do
      table.insert(lines, { '$ ' .. line, 'DeputyCommand' })
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
