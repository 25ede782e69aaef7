--- Keys that work in a file's buffer only while they have something to act on. A user's own mapping is never replaced.

local M = {}

---@class deputy.BoundKeys
---@field act fun(action: string)
---@field mapped table<integer, table<string, string>> working keys by action, by buffer
---@field set table<integer, string[]> keys mapped here, by buffer
local Keys = {}
Keys.__index = Keys

--- Keys of actions that `<Plug>(deputy-…)` maps too.
---@param act fun(action: string)
---@return deputy.BoundKeys
function M.new(act)
  return setmetatable({ act = act, mapped = {}, set = {} }, Keys)
end

local function plug(action)
  return ('<Plug>(deputy-%s)'):format((action:gsub('_', '-')))
end

--- Removes the keys of a buffer.
---@param buf integer
function Keys:unmap(buf)
  for _, key in ipairs(self.set[buf] or {}) do
    pcall(vim.keymap.del, 'n', key, { buffer = buf })
  end
  self.mapped[buf], self.set[buf] = nil, nil
end

--- Maps `keys` of `actions` in a buffer, and no others.
---@param buf integer
---@param keys table<string, string|false>
---@param actions string[]
function Keys:map(buf, keys, actions)
  self:unmap(buf)
  self.mapped[buf], self.set[buf] = {}, {}
  vim.api.nvim_buf_call(buf, function()
    for _, action in ipairs(actions) do
      local key = keys[action]
      -- A key of the user works only if it is mapped to the <Plug> action.
      local own = key and vim.fn.maparg(key, 'n')
      if key and own == plug(action) then
        self.mapped[buf][action] = key
      elseif key and own == '' then
        vim.keymap.set('n', key, function()
          self.act(action)
        end, { buffer = buf, desc = 'Deputy: ' .. action:gsub('_', ' ') })
        self.mapped[buf][action] = key
        table.insert(self.set[buf], key)
      end
    end
  end)
end

return M
