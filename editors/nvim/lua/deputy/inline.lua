--- Proposed changes at their place in the code: what would go and what would come, in virtual lines, with the keys that
--- answer. Nothing is written into the file, and leaving the window answers nothing.

local config = require('deputy.config')
local draw = require('deputy.draw')
local question = require('deputy.question')
local sessions = require('deputy.session')
local text = require('deputy.text')

local M = {}

local ns = vim.api.nvim_create_namespace('deputy.inline')
--- Columns that numbers and signs may take.
local GUTTER = 10
local mapped = {} ---@type table<integer, string[]> keys that were set, by buffer
local rows = {} ---@type table<integer, table<string, integer>> line of each question, by buffer

local function uri_of(asked)
  return asked.preview and asked.preview.type == 'diff' and asked.preview.uri
end

--- The open questions about the file in a buffer.
local function questions_in(buf)
  local uri = vim.uri_from_bufnr(buf)
  return vim.tbl_filter(function(asked)
    return uri_of(asked) == uri
  end, sessions.questions())
end

local function virtual(lines, group, sign)
  return vim.tbl_map(function(line)
    return { { sign .. ' ' .. line, group } }
  end, lines)
end

local function slice(lines, start, count)
  return vim.list_slice(lines, start, start + count - 1)
end

--- Shows a hunk: lines that go are coloured where the buffer still has them, else shown; lines that come are below.
local function show_hunk(buf, hunk, old, new, header)
  local old_start, old_count, new_start, new_count = unpack(hunk)
  local gone, come = slice(old, old_start, old_count), slice(new, new_start, new_count)
  local last = vim.api.nvim_buf_line_count(buf)
  local row = math.min(math.max(old_start, 1), last)
  local have = vim.api.nvim_buf_get_lines(buf, row - 1, row - 1 + old_count, false)
  local below = virtual(come, 'DeputyAdd', '+')
  if old_count > 0 and vim.deep_equal(vim.tbl_map(text.visible, have), gone) then
    for line = row, row + old_count - 1 do
      vim.api.nvim_buf_set_extmark(buf, ns, line - 1, 0, { line_hl_group = 'DeputyDelete' })
    end
  else
    below = vim.list_extend(virtual(gone, 'DeputyDelete', '-'), below)
  end
  local top = old_count == 0 and old_start == 0
  local anchor = top and 0 or math.min(last, row + math.max(old_count, 1) - 1) - 1
  if header then
    -- With nothing to take away the header stands between the lines around the new ones.
    if old_count > 0 then
      vim.api.nvim_buf_set_extmark(buf, ns, row - 1, 0, { virt_lines = header, virt_lines_above = true })
    else
      below = vim.list_extend(vim.list_slice(header), below)
    end
  end
  vim.api.nvim_buf_set_extmark(buf, ns, anchor, 0, { virt_lines = below, virt_lines_above = top })
  return row
end

local function show_question(buf, asked)
  local old, new = text.lines(asked.preview.oldText or ''), text.lines(asked.preview.newText)
  local hunks = vim.diff(table.concat(old, '\n') .. '\n', table.concat(new, '\n') .. '\n', { result_type = 'indices' })
  local header = {
    { { ('? %s  %s'):format(text.one_line(asked.title), draw.place(asked)), 'DeputyQuestion' } },
  }
  local width = vim.api.nvim_win_get_width(vim.fn.bufwinid(buf)) - GUTTER
  for _, line in ipairs(draw.wrapped(draw.choices(asked, config.keys('inline')), width)) do
    table.insert(header, { { '  ' .. line, 'DeputyKeys' } })
  end
  local first
  for index, hunk in
    ipairs(hunks --[[@as integer[][] ]])
  do
    local row = show_hunk(buf, hunk, old, new, index == 1 and header or nil)
    first = first or row
  end
  return first or 1
end

local function nearest(buf)
  local here, best, distance = vim.api.nvim_win_get_cursor(0)[1], nil, math.huge
  for _, asked in ipairs(questions_in(buf)) do
    local away = math.abs((rows[buf] and rows[buf][asked.requestId] or 1) - here)
    if away < distance then
      best, distance = asked, away
    end
  end
  return best
end

--- Goes to the next or previous question, which may be in another file.
---@param by integer
function M.step(by)
  local all = vim.tbl_filter(uri_of, sessions.questions())
  local here = nearest(vim.api.nvim_get_current_buf())
  local at = by > 0 and 0 or 1
  for index, asked in ipairs(all) do
    if here and asked.requestId == here.requestId then
      at = index
    end
  end
  if #all > 0 then
    M.go_to(all[(at - 1 + by) % #all + 1])
  else
    vim.notify('Deputy: no question waits for you.')
  end
end

local actions = {
  approve = function(asked)
    question.answer(asked, 'allow_once')
  end,
  approve_always = function(asked)
    question.answer(asked, 'allow_always')
  end,
  deny = function(asked)
    question.answer(asked, 'reject_once')
  end,
  deny_reason = question.deny_with_reason,
  edit = question.edit,
}

--- Answers the question that is nearest to the cursor in the current file.
---@param action string
function M.act(action)
  if action == 'next_question' or action == 'prev_question' then
    return M.step(action == 'next_question' and 1 or -1)
  end
  local asked = nearest(vim.api.nvim_get_current_buf())
  if asked then
    actions[action](asked)
  else
    vim.notify('Deputy: no question waits here.')
  end
end

local function map(buf)
  if mapped[buf] then
    return
  end
  mapped[buf] = {}
  for action, key in pairs(config.keys('inline')) do
    -- A map of the user's own for this file is left alone.
    if key and vim.fn.maparg(key, 'n', false, true).buffer ~= 1 then
      vim.keymap.set('n', key, function()
        M.act(action)
      end, { buffer = buf, desc = 'Deputy: ' .. action:gsub('_', ' ') })
      table.insert(mapped[buf], key)
    end
  end
end

local function unmap(buf)
  for _, key in ipairs(mapped[buf] or {}) do
    pcall(vim.keymap.del, 'n', key, { buffer = buf })
  end
  mapped[buf] = nil
end

local drawn = {} ---@type table<integer, string>

--- Shows in a buffer what waits for an answer there.
---@param buf integer
function M.refresh(buf)
  if not config.options.inline or vim.bo[buf].buftype ~= '' or vim.api.nvim_buf_get_name(buf) == '' then
    return
  end
  local asked = questions_in(buf)
  local ids = vim.tbl_map(function(each)
    return each.requestId
  end, asked)
  local key = table.concat(ids, ' ') .. ' ' .. vim.api.nvim_buf_get_changedtick(buf)
  if #asked == 0 and not drawn[buf] or drawn[buf] == key then
    return
  end
  vim.api.nvim_buf_clear_namespace(buf, ns, 0, -1)
  drawn[buf], rows[buf] = key, {}
  for _, each in ipairs(asked) do
    rows[buf][each.requestId] = show_question(buf, each)
  end
  if #asked > 0 then
    vim.api.nvim_buf_call(buf, function()
      map(buf)
    end)
  else
    drawn[buf] = nil
    unmap(buf)
  end
end

local function refresh_visible()
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    M.refresh(vim.api.nvim_win_get_buf(win))
  end
end

--- Opens the file of a question at the place of the change.
---@param asked deputy.PermissionRequest
function M.go_to(asked)
  local uri = uri_of(asked)
  if not uri then
    require('deputy.lists').inbox()
    return
  end
  if asked.preview.oldText == nil then
    question.edit(asked)
    return
  end
  require('deputy.panel').jump(uri)
  local buf = vim.api.nvim_get_current_buf()
  drawn[buf] = nil
  M.refresh(buf)
  local row = rows[buf] and rows[buf][asked.requestId]
  if row then
    vim.api.nvim_win_set_cursor(0, { row, 0 })
    vim.cmd('normal! zz')
  end
end

sessions.watch(refresh_visible)

vim.api.nvim_create_autocmd({ 'BufWinEnter', 'TextChanged', 'InsertLeave' }, {
  group = vim.api.nvim_create_augroup('deputy.inline', {}),
  callback = function(event)
    M.refresh(event.buf)
  end,
})

return M
