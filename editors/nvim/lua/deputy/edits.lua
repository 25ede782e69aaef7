--- Edits of agents to open files. An edit of an outdated version is rejected. Each edit is one undo step. A buffer
--- without unsaved changes is saved after the edit, because commands of agents read the disk; others are left unsaved.

local M = {}

---@param change table
---@return integer? buf a loaded buffer
local function buffer_of(change)
  local buf = change.textDocument and vim.fn.bufnr(vim.uri_to_fname(change.textDocument.uri)) or -1
  return buf ~= -1 and vim.api.nvim_buf_is_loaded(buf) and buf or nil
end

--- Whether a change was made for another version of the buffer.
local function is_stale(change, buf)
  local version = change.textDocument.version
  return type(version) == 'number' and version ~= vim.lsp.util.buf_versions[buf]
end

--- Answers `workspace/applyEdit`.
---@param error lsp.ResponseError?
---@param params lsp.ApplyWorkspaceEditParams
---@param context lsp.HandlerContext
---@return lsp.ApplyWorkspaceEditResult
function M.apply(error, params, context)
  local saved = {}
  for _, change in ipairs(params.edit.documentChanges or {}) do
    local buf = buffer_of(change)
    if buf and is_stale(change, buf) then
      return { applied = false, failureReason = 'the text has changed since' }
    elseif buf and not vim.bo[buf].modifiable then
      return { applied = false, failureReason = 'its buffer is locked; `:set modifiable` unlocks it' }
    elseif buf then
      -- Setting it to itself ends the undo block.
      vim.bo[buf].undolevels = vim.bo[buf].undolevels
      if not vim.bo[buf].modified and vim.bo[buf].buftype == '' then
        table.insert(saved, buf)
      end
    end
  end
  local answer = vim.lsp.handlers['workspace/applyEdit'](error, params, context)
  for _, buf in ipairs(saved) do
    vim.api.nvim_buf_call(buf, function()
      vim.cmd('silent! update')
    end)
  end
  return answer
end

return M
