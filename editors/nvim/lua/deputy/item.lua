--- The parts of a window's content: lines, their highlights, and the agent, request or entry that they show.

local M = {}

---@class deputy.Item
---@field lines string[]
---@field marks { [1]: integer, [2]: integer, [3]: integer, [4]: string }[] line from 0, columns from and to, group
---@field aside string? right-aligned text on the first line
---@field about deputy.About?
---@field markdown integer? first line, from 0, of Markdown, which continues to the end

---@class deputy.About
---@field agent string? id
---@field request string? id
---@field entry deputy.Entry?
---@field prompt string? id
---@field earlier string? id of the agent whose transcript has earlier entries

---@alias deputy.Piece { [1]: string, [2]: string? } text and highlight group

---@param about deputy.About?
---@return deputy.Item
function M.new(about)
  return { lines = {}, marks = {}, about = about }
end

--- An item of plain lines.
---@param lines string[]
---@return deputy.Item
function M.plain(lines)
  return { lines = lines, marks = {} }
end

--- Appends a line made of pieces.
---@param item deputy.Item
---@param pieces deputy.Piece[]
function M.add(item, pieces)
  local line, at = '', #item.lines
  for _, piece in ipairs(pieces) do
    local from = #line
    line = line .. piece[1]
    if piece[2] then
      table.insert(item.marks, { at, from, #line, piece[2] })
    end
  end
  table.insert(item.lines, line)
end

--- An item of one line made of pieces.
---@param pieces deputy.Piece[]
---@param about deputy.About?
---@return deputy.Item
function M.line(pieces, about)
  local item = M.new(about)
  M.add(item, pieces)
  return item
end

--- Width of pieces in cells.
---@param pieces deputy.Piece[]
---@return integer
function M.width(pieces)
  return vim.iter(pieces):fold(0, function(sum, piece)
    return sum + vim.api.nvim_strwidth(piece[1])
  end)
end

return M
