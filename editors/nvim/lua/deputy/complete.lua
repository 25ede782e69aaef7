--- Completion in the input area: commands after `/`, files after `@`. Triggered by `<C-x><C-o>`.

local client = require('deputy.client')
local sessions = require('deputy.session')

local M = {}

--- Sends a request and opens the list when the response arrives; never blocks.
function M.omnifunc(findstart)
  local session = sessions.get()
  if findstart == 0 or not session then
    return findstart == 0 and {} or -3
  end
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local lines = vim.api.nvim_buf_get_lines(0, 0, row, false)
  lines[row] = lines[row]:sub(1, column)
  local params = { sessionId = session.id, text = table.concat(lines, '\n') }
  client.request('deputy/context/complete', params, function(answer)
    local now = vim.api.nvim_win_get_cursor(0)
    if not answer or vim.fn.mode() ~= 'i' or now[1] ~= row or now[2] ~= column then
      return
    end
    local items = vim.tbl_map(function(item)
      return { word = item.text, kind = item.kind, menu = item.detail }
    end, answer.items)
    vim.fn.complete(column - #answer.replace + 1, items)
  end, true)
  return -2
end

return M
