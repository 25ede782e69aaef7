--- The session's windows: a thread above, the input area below. What stands in them is the business of others.

local config = require('deputy.config')

local M = {}

--- Columns from which on the session stands beside the code.
local ROOM_FOR_TWO = 120

--- The largest part of a screen's width that it takes when the screen becomes narrower.
local MOST = 0.6

local thread_window, input_window ---@type integer?, integer?

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
  -- Text does not touch the border, and no marks stand where there is none.
  statuscolumn = ' ',
  fillchars = 'eob: ',
  -- A label in brackets is no link.
  winhighlight = '@markup.link.markdown_inline:DeputyPlain,@markup.link.label.markdown_inline:DeputyPlain',
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

--- Puts a buffer into a window of the plugin, from which no command takes it.
---@param win integer
---@param buf integer
---@param statusline string
local function fill(win, buf, statusline)
  vim.wo[win].winfixbuf = false
  vim.api.nvim_win_set_buf(win, buf)
  dress(win, statusline)
  vim.wo[win].winfixbuf = true
end

--- The window of the thread, while it is open.
---@return integer?
function M.thread()
  return alive(thread_window)
end

--- The window of the input area, while it is open.
---@return integer?
function M.input()
  return alive(input_window)
end

--- Cells of a line of a window.
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

--- Keeps the user in the window they are in.
local function aside(open)
  local from = vim.api.nvim_get_current_win()
  open()
  vim.api.nvim_set_current_win(from)
end

--- Shows a buffer as the thread, in a new window where there is none.
---@param buf integer
---@param statusline string
function M.show_thread(buf, statusline)
  if not M.thread() then
    aside(function()
      thread_window = split()
      fill(thread_window, buf, statusline)
    end)
  elseif vim.api.nvim_win_get_buf(thread_window) ~= buf then
    fill(thread_window, buf, statusline)
    vim.api.nvim_win_set_cursor(thread_window, { vim.api.nvim_buf_line_count(buf), 0 })
  end
end

--- Shows a buffer as the input area, below the thread.
---@param buf integer
function M.show_input(buf)
  if M.input() or not M.thread() then
    return
  end
  aside(function()
    vim.api.nvim_set_current_win(thread_window)
    vim.cmd('belowright split')
    input_window = vim.api.nvim_get_current_win()
    fill(input_window, buf, ' Deputy: prompt')
    vim.wo[input_window].winfixheight = true
    M.fit()
  end)
end

--- Gives the input area its height back, which windows that open and close below it take.
function M.fit()
  if M.input() then
    vim.api.nvim_win_set_height(input_window, config.options.window.input_height)
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
  close(thread_window)
  thread_window = nil
end

local group = vim.api.nvim_create_augroup('deputy.window', {})

vim.api.nvim_create_autocmd('WinClosed', {
  group = group,
  callback = function(event)
    -- An input area without its thread would be of no use.
    if thread_window and tonumber(event.match) == thread_window then
      thread_window = nil
      vim.schedule(M.hide_input)
    else
      vim.schedule(M.fit)
    end
  end,
})

--- A screen that has become narrow leaves room for the code: the thread keeps its width otherwise.
vim.api.nvim_create_autocmd('VimResized', {
  group = group,
  callback = function()
    local win, size = M.thread(), config.options.window.size
    -- At the bottom it is as wide as the screen.
    local beside = win and vim.api.nvim_win_get_width(win) < vim.o.columns
    if win and beside and vim.api.nvim_win_get_width(win) > vim.o.columns * MOST then
      vim.api.nvim_win_set_width(win, math.floor(vim.o.columns * (size < 1 and size or MOST)))
    end
  end,
})

return M
