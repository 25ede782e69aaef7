--- The content of all windows as text: lines with their virtual text.
local M = {}

local function chunks(list)
  return table.concat(vim.tbl_map(function(chunk)
    return chunk[1]
  end, list))
end

local function of_buffer(buf)
  local out = {}
  local marks = vim.api.nvim_buf_get_extmarks(buf, -1, 0, -1, { details = true })
  for row, line in ipairs(vim.api.nvim_buf_get_lines(buf, 0, -1, false)) do
    local above, below, beside = {}, {}, ''
    for _, mark in ipairs(marks) do
      if mark[2] == row - 1 then
        local how = mark[4]
        if how.virt_text then
          beside = beside .. '  ' .. chunks(how.virt_text)
        end
        for _, virtual in ipairs(how.virt_lines or {}) do
          table.insert(how.virt_lines_above and above or below, '~' .. chunks(virtual))
        end
      end
    end
    vim.list_extend(out, above)
    table.insert(out, line .. beside)
    vim.list_extend(out, below)
  end
  return out
end

function M.everything()
  local out = {}
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    table.insert(out, '== ' .. vim.wo[win].winbar)
    vim.list_extend(out, of_buffer(vim.api.nvim_win_get_buf(win)))
  end
  return table.concat(out, '\n')
end

return M
