--- What an agent proposes, edited by the user before it is approved: a file as it would become, or a command.

local text = require('deputy.text')

local M = {}

local place = vim.api.nvim_create_namespace('deputy.proposal')

--- The field of a tool's input that is all that it proposes.
local WHOLE = { write_file = 'content', shell = 'command' }

-- -- texts -------------------------------------------------------------------------------------------------------

--- The server takes care of how the lines of a file end.
local function plain(whole)
  return (whole:gsub('\r\n', '\n'))
end

---@param whole string
---@return string[] lines with their ends
local function lines_of(whole)
  local lines = {}
  for line in whole:gmatch('[^\n]*\n?') do
    table.insert(lines, line ~= '' and line or nil)
  end
  return lines
end

local function occurs_once(whole, part)
  local first = part ~= '' and whole:find(part, 1, true)
  return first and not whole:find(part, first + 1, true)
end

--- The smallest run of whole lines that holds all that differs and is found once in `before`.
---@param before string
---@param after string
---@return string old
---@return string new
local function replacement(before, after)
  local from, to = lines_of(before), lines_of(after)
  local start, rest, room = 0, 0, math.min(#from, #to)
  while start < room and from[start + 1] == to[start + 1] do
    start = start + 1
  end
  while rest < room - start and from[#from - rest] == to[#to - rest] do
    rest = rest + 1
  end
  while true do
    local old = table.concat(from, '', start + 1, #from - rest)
    if occurs_once(before, old) or start + rest == 0 then
      return old, table.concat(to, '', start + 1, #to - rest)
    end
    start, rest = math.max(0, start - 1), math.max(0, rest - 1)
  end
end

--- Whether a question is about a part of a file, and tells the whole of it.
local function is_edit(question)
  local preview = question.preview
  return question.tool == 'edit_file' and preview and preview.type == 'diff' and preview.oldText ~= nil
end

--- What there is to edit.
---@param question deputy.PermissionRequest
---@return string
function M.text(question)
  local field = WHOLE[question.tool]
  if is_edit(question) then
    return plain(question.preview.newText)
  elseif field and type(question.input[field]) == 'string' then
    return question.input[field]
  end
  return vim.json.encode(question.input)
end

--- The tool's input that does what the user wrote; nothing where that is what was proposed.
---@param question deputy.PermissionRequest
---@param written string
---@return table? input
---@return string? problem
function M.input(question, written)
  local field, input = WHOLE[question.tool], vim.deepcopy(question.input)
  if written == M.text(question) then
    return nil
  elseif is_edit(question) then
    local before = plain(question.preview.oldText)
    if written == before then
      return nil, 'nothing of the proposal is left; deny it instead.'
    end
    input.old_string, input.new_string = replacement(before, written)
    input.replace_all = nil
    return input
  elseif field and type(input[field]) == 'string' then
    input[field] = written
    return input
  end
  local ok, decoded = pcall(vim.json.decode, written)
  if not ok or type(decoded) ~= 'table' then
    return nil, 'that is no JSON object.'
  end
  return decoded
end

-- -- the buffer --------------------------------------------------------------------------------------------------

--- A buffer cannot show whether its last line ends: it ends as the proposal does.
local function text_in(buf, question)
  local written = table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), '\n')
  local ends = vim.endswith(M.text(question), '\n')
  return written .. (ends and written ~= '' and '\n' or '')
end

local function written(buf, question)
  local input, problem = M.input(question, text_in(buf, question))
  if problem then
    vim.notify('Deputy: ' .. problem, vim.log.levels.ERROR)
    return
  end
  vim.bo[buf].modified = false
  -- What came too late stays, for whatever the user wants to do with it.
  require('deputy.question').answer(question, 'allow_once', { input = input }, function()
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

--- Marks the lines that the agent would change, and goes to the first of them.
local function show_change(buf, question)
  local hunks = text.diff(plain(question.preview.oldText), M.text(question), { result_type = 'indices' })
  for index, hunk in
    ipairs(hunks --[[@as deputy.Hunk[] ]])
  do
    local first, count = hunk[3], hunk[4]
    for line = first, first + count - 1 do
      vim.api.nvim_buf_set_extmark(buf, place, line - 1, 0, { line_hl_group = 'DeputyAdd' })
    end
    if index == 1 then
      vim.api.nvim_win_set_cursor(0, { math.max(1, first), 0 })
      vim.cmd('normal! zz')
    end
  end
end

local open = {} ---@type table<string, integer> buffers, by request

--- Opens what an agent proposes in a buffer of its own: writing it approves it as written, closing it does nothing.
---@param question deputy.PermissionRequest
function M.edit(question)
  -- In whichever tab page it is.
  local shown = vim.fn.win_findbuf(open[question.requestId] or -1)[1]
  if shown then
    return vim.api.nvim_set_current_win(shown)
  end
  local buf = vim.api.nvim_create_buf(false, true)
  open[question.requestId] = buf
  vim.bo[buf].buftype, vim.bo[buf].bufhidden = 'acwrite', 'wipe'
  local where = question.locations[1]
  local file = where and vim.uri_to_fname(where.uri)
  local what = file and vim.fs.basename(file) or question.tool
  vim.api.nvim_buf_set_name(buf, ('deputy://proposal/%s/%s'):format(question.requestId:sub(-6), what))
  local lines = vim.split((M.text(question):gsub('\n$', '')), '\n', { plain = true })
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modified = false
  vim.cmd('botright split')
  vim.api.nvim_win_set_buf(0, buf)
  vim.bo[buf].filetype = question.tool == 'shell' and 'sh' or file and vim.filetype.match({ filename = file }) or 'json'
  local hint = '   :w approves it as written   :q leaves the question open '
  local room = math.max(1, vim.api.nvim_win_get_width(0) - #hint - 1)
  vim.wo[0][0].winbar = text.bar(text.cut(text.one_line(question.title), room) .. hint)
  if is_edit(question) then
    show_change(buf, question)
  end
  guard(buf, question)
end

return M
