--- The session's windows: a transcript above, the input area below. Other modules set their content.

local config = require('deputy.config')

local M = {}

--- Minimum columns of the screen to place the session beside the code.
local ROOM_FOR_TWO = 120

--- Largest share of the screen's width after the screen becomes narrower.
local MOST = 0.6

local transcript_window, input_window ---@type integer?, integer?

local OPTIONS = {
  number = false,
  relativenumber = false,
  signcolumn = 'no',
  foldcolumn = '0',
  foldenable = false,
  spell = false,
  list = false,
  wrap = true,
  linebreak = true,
  breakindent = true,
  winfixwidth = true,
  -- Leave a margin at the border, and hide the marks after the last line.
  statuscolumn = ' ',
  fillchars = 'eob: ',
  -- Hide the signs of Markdown, also in the line of the cursor.
  conceallevel = 2,
  concealcursor = 'nc',
}

local function alive(win)
  return win and vim.api.nvim_win_is_valid(win) and win or nil
end

local function dress(win, statusline)
  for name, value in pairs(OPTIONS) do
    vim.wo[win][name] = value
  end
  vim.wo[win].statusline = statusline
end

--- Puts a buffer into a window of the plugin and fixes it there.
---@param win integer
---@param buf integer
---@param statusline string
local function fill(win, buf, statusline)
  vim.wo[win].winfixbuf = false
  vim.api.nvim_win_set_buf(win, buf)
  dress(win, statusline)
  vim.wo[win].winfixbuf = true
end

--- The window of the transcript, while it is open.
---@return integer?
function M.transcript()
  return alive(transcript_window)
end

--- The window of the input area, while it is open.
---@return integer?
function M.input()
  return alive(input_window)
end

--- Width of a window's text in cells.
---@param win integer
---@return integer
function M.width(win)
  return vim.api.nvim_win_get_width(win) - vim.fn.getwininfo(win)[1].textoff
end

local function split()
  local position, size = config.options.window.position, config.options.window.size
  if position == 'auto' then
    position = vim.o.columns >= ROOM_FOR_TWO and 'right' or 'bottom'
  end
  if position == 'tab' then
    vim.cmd('tabnew')
  elseif position == 'bottom' then
    vim.cmd('botright split')
    vim.api.nvim_win_set_height(0, size < 1 and math.floor(vim.o.lines * size) or size)
  else
    vim.cmd(position == 'left' and 'topleft vsplit' or 'botright vsplit')
    vim.api.nvim_win_set_width(0, size < 1 and math.floor(vim.o.columns * size) or size)
  end
  return vim.api.nvim_get_current_win()
end

--- Runs `open` and restores the current window.
local function keeping_focus(open)
  local from = vim.api.nvim_get_current_win()
  open()
  vim.api.nvim_set_current_win(from)
end

--- Shows a buffer as the transcript, in a new window if there is none.
---@param buf integer
---@param statusline string
function M.show_transcript(buf, statusline)
  if not M.transcript() then
    keeping_focus(function()
      transcript_window = split()
      fill(transcript_window, buf, statusline)
    end)
  elseif vim.api.nvim_win_get_buf(transcript_window) ~= buf then
    fill(transcript_window, buf, statusline)
    vim.api.nvim_win_set_cursor(transcript_window, { vim.api.nvim_buf_line_count(buf), 0 })
  end
end

--- Shows a buffer as the input area, below the transcript.
---@param buf integer
function M.show_input(buf)
  if M.input() or not M.transcript() then
    return
  end
  keeping_focus(function()
    vim.api.nvim_set_current_win(transcript_window)
    vim.cmd('belowright split')
    input_window = vim.api.nvim_get_current_win()
    fill(input_window, buf, ' Deputy: prompt')
    vim.wo[input_window].winfixheight = true
    M.fit()
  end)
end

--- Largest share of the screen's height for the input area.
local MOST_INPUT = 1 / 6

--- Restores the height of the input area, which windows opened or closed below it change.
function M.fit()
  if M.input() then
    local most = math.max(1, math.floor(vim.o.lines * MOST_INPUT))
    vim.api.nvim_win_set_height(input_window, math.min(config.options.window.input_height, most))
  end
end

local function close(win)
  -- The last window of all cannot be closed.
  if alive(win) and not pcall(vim.api.nvim_win_close, win, true) then
    vim.wo[win].winfixbuf = false
    vim.api.nvim_win_call(win, vim.cmd.enew)
  end
end

function M.hide_input()
  close(input_window)
  input_window = nil
end

function M.close()
  M.hide_input()
  close(transcript_window)
  transcript_window = nil
end

local group = vim.api.nvim_create_augroup('deputy.window', {})

vim.api.nvim_create_autocmd('WinClosed', {
  group = group,
  callback = function(event)
    -- The input area is useless without its transcript.
    if transcript_window and tonumber(event.match) == transcript_window then
      transcript_window = nil
      vim.schedule(M.hide_input)
    else
      vim.schedule(M.fit)
    end
  end,
})

--- Leaves room for the code on a screen that became narrow; otherwise the transcript keeps its width.
vim.api.nvim_create_autocmd('VimResized', {
  group = group,
  callback = function()
    local win, size = M.transcript(), config.options.window.size
    -- At the bottom it is as wide as the screen.
    local beside = win and vim.api.nvim_win_get_width(win) < vim.o.columns
    if win and beside and vim.api.nvim_win_get_width(win) > vim.o.columns * MOST then
      vim.api.nvim_win_set_width(win, math.floor(vim.o.columns * (size < 1 and size or MOST)))
    end
  end,
})

return M
