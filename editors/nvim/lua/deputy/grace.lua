--- The moment after a question has come in which keys do not answer it: they were typed for what stood there before.

local M = {}

M.MILLISECONDS = 400

---@return number
function M.now()
  return vim.uv.hrtime() / 1e6
end

--- Whether a question that came at `since` may be answered; where it may not, the user is told.
---@param since number?
---@return boolean
function M.over(since)
  if since and M.now() - since < M.MILLISECONDS then
    vim.notify('Deputy: a question has just come here: look at it first.', vim.log.levels.WARN)
    return false
  end
  return true
end

return M
