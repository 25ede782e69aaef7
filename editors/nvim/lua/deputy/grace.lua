--- Grace period after an approval appears. Keys pressed within it do not answer, because they were meant for the text
--- that was there before.

local M = {}

M.MILLISECONDS = 400

---@return number
function M.now()
  return vim.uv.hrtime() / 1e6
end

--- Whether an approval that appeared at `since` may be answered; notifies the user if not.
---@param since number?
---@return boolean
function M.over(since)
  if since and M.now() - since < M.MILLISECONDS then
    vim.notify('Deputy: this approval has just appeared: look at it first.', vim.log.levels.WARN)
    return false
  end
  return true
end

return M
