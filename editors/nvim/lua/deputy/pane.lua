--- A buffer that shows items. Updates write only changed lines and keep the cursor; a window at the end of the buffer
--- stays at the end.

local grace = require('deputy.grace')

local M = {}

local lines_ns = vim.api.nvim_create_namespace('deputy.lines')
local aside_ns = vim.api.nvim_create_namespace('deputy.aside')

M.panes = {} ---@type table<string, deputy.Pane>

---@class deputy.Pane
---@field buf integer
---@field items deputy.Item[]
---@field starts integer[] the first line of each item, from 0
---@field lines string[]
---@field slid table<integer, { request: string, at: number, row: integer }> requests that an update moved under the cursor, by window
local Pane = {}
Pane.__index = Pane

--- A scratch buffer of that name, reused while it is valid.
---@param name string
---@param filetype string
---@return deputy.Pane pane, boolean fresh
function M.open(name, filetype)
  local pane = M.panes[name]
  if pane and vim.api.nvim_buf_is_valid(pane.buf) then
    return pane, false
  end
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buf, 'deputy://' .. name)
  vim.bo[buf].bufhidden, vim.bo[buf].swapfile, vim.bo[buf].modifiable = 'hide', false, false
  vim.bo[buf].undolevels = -1
  vim.bo[buf].filetype = filetype
  pane = setmetatable({ buf = buf, items = {}, starts = {}, lines = {}, slid = {} }, Pane)
  M.panes[name] = pane
  return pane, true
end

--- The number of equal lines at the start and at the end of old and new.
local function common(old, new)
  local head, most = 0, math.min(#old, #new)
  while head < most and old[head + 1] == new[head + 1] do
    head = head + 1
  end
  local tail = 0
  while tail < most - head and old[#old - tail] == new[#new - tail] do
    tail = tail + 1
  end
  return head, tail
end

--- Windows with the cursor at the end, which stay at the end.
function Pane:followers()
  local last = vim.api.nvim_buf_line_count(self.buf)
  return vim.tbl_filter(function(win)
    return vim.api.nvim_win_get_cursor(win)[1] == last
  end, vim.fn.win_findbuf(self.buf))
end

local function mark(buf, items, starts, from)
  for index, item in ipairs(items) do
    if starts[index] + #item.lines > from then
      for _, paint in ipairs(item.marks) do
        local row = starts[index] + paint[1]
        vim.api.nvim_buf_set_extmark(buf, lines_ns, row, paint[2], {
          end_col = paint[3],
          hl_group = paint[4],
          priority = 200,
        })
      end
    end
  end
end

function Pane:write(lines)
  local head, tail = common(self.lines, lines)
  if head == #lines and head == #self.lines then
    return
  end
  local from, to = head, #self.lines - tail
  vim.bo[self.buf].modifiable = true
  -- An empty buffer already has one empty line.
  if #self.lines == 0 then
    to = -1
  end
  vim.api.nvim_buf_set_lines(self.buf, from, to, false, vim.list_slice(lines, head + 1, #lines - tail))
  vim.bo[self.buf].modifiable = false
  self.lines = lines
end

--- Shows `items`.
---@param items deputy.Item[]
function Pane:show(items)
  if not vim.api.nvim_buf_is_valid(self.buf) then
    return
  end
  local lines, starts = {}, {}
  for index, item in ipairs(items) do
    starts[index] = #lines
    vim.list_extend(lines, item.lines)
  end
  local followers, held = self:followers(), self:held()
  self:write(lines)
  -- Unchanged items are the same objects as before, so marks start at the first item that differs.
  local first = 1
  while items[first] and items[first] == self.items[first] do
    first = first + 1
  end
  local from = starts[first] or #lines
  vim.api.nvim_buf_clear_namespace(self.buf, lines_ns, from, -1)
  self.items, self.starts = items, starts
  mark(self.buf, items, starts, from)
  self:show_asides()
  self:show_markdown()
  local last = vim.api.nvim_buf_line_count(self.buf)
  for _, win in ipairs(followers) do
    vim.api.nvim_win_set_cursor(win, { last, 0 })
    -- Scroll so that resized windows show as much as possible.
    vim.api.nvim_win_call(win, function()
      vim.cmd('normal! zb')
    end)
  end
  self:hold(held)
end

--- Only messages are Markdown. Elsewhere, in commands and paths, an asterisk is an asterisk.
function Pane:show_markdown()
  local parser = vim.treesitter.get_parser(self.buf, nil, { error = false })
  if not parser then
    return
  end
  local regions = {}
  for index, item in ipairs(self.items) do
    if item.markdown then
      table.insert(regions, { { self.starts[index] + item.markdown, 0, self.starts[index] + #item.lines, 0 } })
    end
  end
  -- Without a region, all would be Markdown.
  parser:set_included_regions(#regions > 0 and regions or { { { 0, 0, 0, 0 } } })
end

function Pane:show_asides()
  vim.api.nvim_buf_clear_namespace(self.buf, aside_ns, 0, -1)
  for index, item in ipairs(self.items) do
    if item.aside then
      vim.api.nvim_buf_set_extmark(self.buf, aside_ns, self.starts[index], 0, {
        virt_text = { { item.aside .. ' ', 'DeputyDim' } },
        virt_text_pos = 'eol_right_align',
        hl_mode = 'combine',
      })
    end
  end
end

--- The agent, request or entry at the cursor.
---@return deputy.About?
function Pane:under_cursor()
  return (self:at(vim.api.nvim_win_get_cursor(0)[1] - 1))
end

--- The agent, request or entry of a line, and the line's offset in its item.
---@param row integer from 0
---@return deputy.About? about, integer? offset
function Pane:at(row)
  for index = #self.items, 1, -1 do
    if self.starts[index] <= row then
      return self.items[index].about, row - self.starts[index]
    end
  end
end

--- When an update moved the request under the cursor; nil if the cursor has moved since.
---@param request string
---@return number?
function Pane:since(request)
  local slid = self.slid[vim.api.nvim_get_current_win()]
  local here = slid and slid.request == request and slid.row == vim.api.nvim_win_get_cursor(0)[1]
  return here and slid.at or nil
end

--- The request under the cursor of each window, and the cursor's offset in it.
function Pane:held()
  local held = {}
  for _, win in ipairs(vim.fn.win_findbuf(self.buf)) do
    local about, offset = self:at(vim.api.nvim_win_get_cursor(win)[1] - 1)
    held[win] = { request = about and about.request, offset = offset }
  end
  return held
end

--- Keeps each cursor on its request while that is open, and records cursors that are now on another request.
function Pane:hold(held)
  for win, before in pairs(held) do
    local cursor = vim.api.nvim_win_get_cursor(win)
    for index, item in ipairs(before.request and self.items or {}) do
      if item.about and item.about.request == before.request then
        cursor[1] = self.starts[index] + 1 + math.min(before.offset, #item.lines - 1)
        vim.api.nvim_win_set_cursor(win, cursor)
      end
    end
    local about = self:at(cursor[1] - 1)
    local request = about and about.request
    if request and request ~= before.request then
      self.slid[win] = { request = request, at = grace.now(), row = cursor[1] }
    end
  end
end

--- The line, from 1, of the next or previous item around `row` for which `wanted` returns true; wraps around.
---@param row integer from 1
---@param by 1|-1
---@param wanted fun(about: deputy.About): boolean
---@return integer?
function Pane:step(row, by, wanted)
  local first, last, before, after
  for index, item in ipairs(self.items) do
    if item.about and wanted(item.about) then
      local at = self.starts[index] + 1
      first, last = first or at, at
      before = at < row and at or before
      after = after or at > row and at or nil
    end
  end
  if by > 0 then
    return after or first
  end
  return before or last
end

return M
