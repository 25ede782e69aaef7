--- Edit a proposal before approving it: the resulting file, or a command.

local text = require('deputy.text')

local M = {}

local place = vim.api.nvim_create_namespace('deputy.proposal')

--- The input field that contains the whole proposal, by tool.
local WHOLE = { write_file = 'content', shell = 'command' }

-- -- texts -------------------------------------------------------------------------------------------------------

--- The server restores the line endings of a file.
local function plain(whole)
  return (whole:gsub('\r\n', '\n'))
end

---@param whole string
---@return string[] lines with their line endings
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

--- The smallest run of whole lines that contains every difference and occurs once in `before`.
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

--- Whether a request edits a part of a file and its preview has the whole file.
local function is_edit(request)
  local preview = request.preview
  return request.tool == 'edit_file' and preview and preview.type == 'diff' and preview.oldText ~= nil
end

--- The text to edit.
---@param request deputy.PermissionRequest
---@return string
function M.text(request)
  local field = WHOLE[request.tool]
  if is_edit(request) then
    return plain(request.preview.newText)
  elseif field and type(request.input[field]) == 'string' then
    return request.input[field]
  end
  return vim.json.encode(request.input)
end

--- The tool input that results in the user's text; nil if the text is the proposal.
---@param request deputy.PermissionRequest
---@param written string
---@return table? input
---@return string? problem
function M.input(request, written)
  local field, input = WHOLE[request.tool], vim.deepcopy(request.input)
  if written == M.text(request) then
    return nil
  elseif is_edit(request) then
    local before = plain(request.preview.oldText)
    if written == before then
      return nil, 'no proposed change is left; deny it instead.'
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
    return nil, 'the text is not a JSON object.'
  end
  return decoded
end

-- -- the buffer --------------------------------------------------------------------------------------------------

--- A buffer does not contain the last line ending, so the proposal's is used.
local function text_in(buf, request)
  local written = table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), '\n')
  local ends = vim.endswith(M.text(request), '\n')
  return written .. (ends and written ~= '' and '\n' or '')
end

local function written(buf, request)
  local input, problem = M.input(request, text_in(buf, request))
  if problem then
    vim.notify('Deputy: ' .. problem, vim.log.levels.ERROR)
    return
  end
  vim.bo[buf].modified = false
  -- If the answer is too late, the buffer stays, so that the text is not lost.
  require('deputy.approval').answer(request, 'allow_once', { input = input }, function()
    pcall(vim.api.nvim_buf_delete, buf, { force = true })
  end)
end

--- Only `:w` in the proposal's own window approves it. Commands that write all changed buffers skip it, because it
--- never counts as changed, and writes from another window are rejected.
local function guard(buf, request)
  local inside = true
  local function unchanged()
    vim.bo[buf].modified = false
  end
  vim.api.nvim_buf_attach(buf, false, { on_lines = unchanged })
  vim.api.nvim_create_autocmd({ 'TextChanged', 'TextChangedI', 'TextChangedP' }, { buffer = buf, callback = unchanged })
  -- During a write the written buffer is always current, but these events are only caused by the user.
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
        written(buf, request)
      else
        vim.notify('Deputy: use `:w` in the window of the proposal to approve it.', vim.log.levels.WARN)
      end
    end,
  })
end

--- Highlights the lines that the agent would change, and moves to the first one.
local function show_change(buf, request)
  local hunks = text.diff(plain(request.preview.oldText), M.text(request), { result_type = 'indices' })
  for index, hunk in
    ipairs(hunks --[[@as deputy.DiffHunkLines[] ]])
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

--- Opens a proposal in a new buffer: writing it approves the text as written, closing it does nothing.
---@param request deputy.PermissionRequest
function M.edit(request)
  -- In any tab page.
  local shown = vim.fn.win_findbuf(open[request.requestId] or -1)[1]
  if shown then
    return vim.api.nvim_set_current_win(shown)
  end
  local buf = vim.api.nvim_create_buf(false, true)
  open[request.requestId] = buf
  vim.bo[buf].buftype, vim.bo[buf].bufhidden = 'acwrite', 'wipe'
  local where = request.locations[1]
  local file = where and vim.uri_to_fname(where.uri)
  local what = file and vim.fs.basename(file) or request.tool
  vim.api.nvim_buf_set_name(buf, ('deputy://proposal/%s/%s'):format(request.requestId:sub(-6), what))
  local lines = vim.split((M.text(request):gsub('\n$', '')), '\n', { plain = true })
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modified = false
  vim.cmd('botright split')
  vim.api.nvim_win_set_buf(0, buf)
  vim.bo[buf].filetype = request.tool == 'shell' and 'sh' or file and vim.filetype.match({ filename = file }) or 'json'
  local hint = '   :w approves it as written   :q leaves it open '
  local room = math.max(1, vim.api.nvim_win_get_width(0) - #hint - 1)
  vim.wo[0][0].winbar = text.bar(text.cut(text.one_line(request.title), room) .. hint)
  if is_edit(request) then
    show_change(buf, request)
  end
  guard(buf, request)
end

return M
