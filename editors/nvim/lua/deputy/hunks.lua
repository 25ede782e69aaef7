--- A proposed change drawn into the buffer of its file: removed lines are highlighted, added lines are virtual lines
--- below them, and a header shows the agent and the keys. Nothing is written.

local box = require('deputy.box')
local reducer = require('deputy.reducer')
local sessions = require('deputy.session')
local text = require('deputy.text')

local M = {}

local ns = vim.api.nvim_create_namespace('deputy.hunks')

---@alias deputy.DiffHunkLines { [1]: integer, [2]: integer, [3]: integer, [4]: integer } start and count in the old and new text

---@return deputy.DiffHunkLines[]
local function hunks_of(old, new)
  local function joined(lines)
    return table.concat(lines, '\n') .. '\n'
  end
  return text.diff(joined(old), joined(new), { result_type = 'indices' })
end

local function slice(lines, start, count)
  return vim.list_slice(lines, start, start + count - 1)
end

--- How far a line of the old text has moved in the buffer: the user may have typed above it, and an earlier request for
--- the same file may still be open.
local function shift_of(line, moved)
  local by = 0
  for _, hunk in ipairs(moved) do
    if hunk[1] + math.max(hunk[2], 1) <= line then
      by = by + hunk[4] - hunk[2]
    end
  end
  return by
end

--- A virtual line. Its text begins where that of the file does, so its sign is at the right.
---@param line string at most `width - 2` cells
---@param sign string
---@param group string
---@param width integer
---@return deputy.Piece[]
function M.row(line, sign, group, width)
  return { { line .. (' '):rep(width - text.width(line) - 1) .. sign, group } }
end

--- Virtual lines, folded at the window's width so that all text is visible.
local function virtual(lines, group, sign, width)
  local shown = {}
  for _, line in ipairs(lines) do
    for index, part in ipairs(text.folded(line, width - 2)) do
      table.insert(shown, M.row(part, index == 1 and sign or ' ', group, width))
    end
  end
  return shown
end

local function put(buf, row, options)
  vim.api.nvim_buf_set_extmark(buf, ns, row, 0, options)
end

--- A window at the top of a file does not show virtual lines above the first line unless it is scrolled.
local function reveal(buf, count)
  for _, win in ipairs(vim.fn.win_findbuf(buf)) do
    vim.api.nvim_win_call(win, function()
      if vim.fn.winsaveview().topline == 1 then
        vim.fn.winrestview({ topfill = count })
      end
    end)
  end
end

---@class deputy.Drawn position of the first change of a request
---@field row integer its first line, from 1
---@field last integer the line above the added lines, from 1
---@field above integer virtual lines above the first line
---@field below integer virtual lines below the last one

--- Draws a hunk; `header` is nil for all but the first hunk of a request.
---@return deputy.Drawn
local function draw_hunk(buf, hunk, removed, added, header, width)
  local old_start, old_count = hunk[1], hunk[2]
  local last = vim.api.nvim_buf_line_count(buf)
  local row = math.min(math.max(old_start, 1), last)
  local have = vim.api.nvim_buf_get_lines(buf, row - 1, row - 1 + old_count, false)
  local below = virtual(added, 'DeputyAdd', '+', width)
  if old_count > 0 and vim.deep_equal(vim.tbl_map(text.exact, have), removed) then
    for line = row, row + old_count - 1 do
      put(buf, line - 1, { line_hl_group = 'DeputyDelete' })
    end
  else
    below = vim.list_extend(virtual(removed, 'DeputyDelete', '-', width), below)
  end
  local top = old_count == 0 and old_start <= 0
  local anchor = top and 0 or math.min(last, row + math.max(old_count, 1) - 1) - 1
  local above = header and old_count > 0 and row > 1
  if header then
    -- Without removed lines the header is between the lines around the added ones; above the first line of a window it
    -- would not be visible.
    if above then
      put(buf, row - 1, { virt_lines = header, virt_lines_above = true })
    else
      below = vim.list_extend(vim.list_slice(header), below)
    end
  end
  put(buf, anchor, { virt_lines = below, virt_lines_above = top })
  if top then
    reveal(buf, #below)
  end
  return { row = row, last = anchor + 1, above = above and header and #header or 0, below = #below }
end

--- Scrolls so that as much as possible of a partly visible change is shown; moves the cursor only if needed.
---@param win integer
---@param drawn deputy.Drawn
function M.uncover(win, drawn)
  vim.api.nvim_win_call(win, function()
    local view, height = vim.fn.winsaveview(), vim.api.nvim_win_get_height(win)
    if drawn.row < view.topline or drawn.row > vim.fn.line('w$') + 1 then
      return
    end
    local lines = vim.api.nvim_win_text_height(win, { start_row = view.topline - 1, end_row = drawn.last - 1 }).all
    if lines + drawn.below > height then
      local lnum = math.max(view.lnum, drawn.row)
      vim.fn.winrestview({ topline = drawn.row, topfill = drawn.above, lnum = lnum })
    end
  end)
end

--- Height in lines below which only a few keys are shown, to leave room for the change.
local LOW = 12
local FEW = { approve = true, deny = true, edit = true }

local STALE = 'the text has changed since the agent asked: approving may fail'

local function few(keys)
  local some = {}
  for action, key in pairs(keys) do
    some[action] = FEW[action] and key or nil
  end
  return some
end

local function header_of(request, width, keys, stale)
  local own = reducer.requests_of(sessions.sessions[request.sessionId].state, request.agent.agentId)
  local title = ('? %s  %s'):format(text.one_line(request.title), box.place(request))
  local choices = box.choices(request, keys, #own)
  if not keys.approve then
    table.insert(choices, ':DeputyInbox to answer')
  end
  local header = { { { text.cut(title, width), 'DeputyApproval' } } }
  if stale then
    table.insert(header, { { text.cut('  ' .. STALE, width), 'DeputyFailed' } })
  end
  for _, line in ipairs(box.wrapped(choices, width - 2)) do
    table.insert(header, { { '  ' .. line, 'DeputyKeys' } })
  end
  return header
end

--- Lines for comparison: a buffer has no line after the last line feed.
local function lines_of(whole)
  local lines = text.exact_lines(whole or '')
  return #lines > 1 and lines[#lines] == '' and vim.list_slice(lines, 1, #lines - 1) or lines
end

local function lines_in(buf)
  return vim.tbl_map(text.exact, vim.api.nvim_buf_get_lines(buf, 0, -1, false))
end

--- Whether a buffer contains exactly a text.
---@param buf integer
---@param whole string? nil: there is no file
---@return boolean
function M.holds(buf, whole)
  return vim.deep_equal(lines_in(buf), lines_of(whole))
end

--- Redraws the windows of a buffer. Neovim does not do this for all changes of virtual lines, for example after a resize.
---@param buf integer
local function redraw(buf)
  vim.api.nvim__redraw({ buf = buf, valid = false })
end

--- Removes everything drawn in a buffer.
---@param buf integer
function M.clear(buf)
  vim.api.nvim_buf_clear_namespace(buf, ns, 0, -1)
  redraw(buf)
end

--- Draws a permission request for the file in a buffer, for a window of `width` cells.
---@param buf integer
---@param request deputy.PermissionRequest
---@param width integer
---@param keys table<string, string> mapped keys, by action
---@param height integer? lines of that window
---@param stale boolean whether the text has changed since the agent asked
---@return deputy.Drawn
function M.draw(buf, request, width, keys, height, stale)
  local old, new = text.exact_lines(request.preview.oldText or '', request.preview.newText)
  local moved = hunks_of(lines_of(request.preview.oldText), lines_in(buf))
  local low = height and height < LOW
  local header, first = header_of(request, width, low and few(keys) or keys, stale), nil ---@type deputy.Piece[][], deputy.Drawn?
  for _, hunk in ipairs(hunks_of(old, new)) do
    local removed, added = slice(old, hunk[1], hunk[2]), slice(new, hunk[3], hunk[4])
    local at = { hunk[1] + shift_of(hunk[1], moved), hunk[2] }
    local drawn = draw_hunk(buf, at, removed, added, not first and header or nil, width)
    first = first or drawn
  end
  redraw(buf)
  return first or { row = 1, last = 1, above = 0, below = 0 }
end

return M
