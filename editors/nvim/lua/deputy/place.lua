--- Locations in files: jump to one, and find the one under the cursor.

local client = require('deputy.client')

local M = {}

--- A window of this tab for a file: the one that shows it, otherwise one that is not the plugin's, otherwise a new one.
local function window_for(buf)
  local own = vim.api.nvim_tabpage_list_wins(0)
  local function first(wanted)
    return vim.iter(own):find(function(win)
      return wanted(vim.api.nvim_win_get_buf(win)) and vim.api.nvim_win_get_config(win).relative == ''
    end)
  end
  local found = first(function(shown)
    return shown == buf
  end) or first(function(shown)
    return vim.bo[shown].buftype == ''
  end)
  if found then
    return found
  end
  vim.cmd('topleft vsplit')
  vim.wo.winfixbuf = false
  return vim.api.nvim_get_current_win()
end

--- Jumps to a location in a file, in a window that is not the plugin's.
---@param uri string
---@param line integer? from 1
function M.jump(uri, line)
  local buf = vim.fn.bufadd(vim.fn.fnamemodify(vim.uri_to_fname(uri), ':.'))
  vim.bo[buf].buflisted = true
  vim.api.nvim_set_current_win(window_for(buf))
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_buf(0, buf)
  if line then
    vim.api.nvim_win_set_cursor(0, { math.min(line, vim.api.nvim_buf_line_count(0)), 0 })
    vim.cmd('normal! zz')
  end
end

--- The location under the cursor, such as `src/a.py:12-30`.
---@return string? uri, integer? line
function M.under_cursor()
  local word = vim.fn.expand('<cWORD>'):gsub('^[`(%[\'"]+', ''):gsub('[`)%]\'",.;]+$', '')
  local path, line = word:match('^(.-):(%d+)[-%d]*$')
  path = path or word
  local full = vim.startswith(path, '/') and path or client.root() .. '/' .. path
  return path ~= '' and vim.uv.fs_stat(full) and vim.uri_from_fname(full) or nil, tonumber(line)
end

return M
