--- The window with the permission rules of a session: where each comes from, and keys that remove one.

local client = require('deputy.client')
local text = require('deputy.text')

local M = {}

--- `allow  shell(make test)   .deputy/settings.local.json`.
---@param rule deputy.Rule
---@return string
function M.line(rule)
  local target = rule.pattern and ('%s(%s)'):format(rule.tool, text.exact(rule.pattern)) or rule.tool
  local source = text.one_line(vim.fn.fnamemodify(rule.source, ':~:.'))
  return ('%-6s %s   %s'):format(rule.action, target, source)
end

local function show(buf, rules)
  local lines = vim.tbl_map(M.line, rules)
  if #lines == 0 then
    lines = { 'This session has no permission rules.' }
  end
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modifiable, vim.bo[buf].modified = false, false
  vim.b[buf].deputy_rules = rules
end

local function remove(buf, session_id, saved)
  local rule = (vim.b[buf].deputy_rules or {})[vim.api.nvim_win_get_cursor(0)[1]]
  if not rule then
    return
  end
  if saved and not rule.saved then
    vim.notify('Deputy: this rule is in no settings file. Use dd to remove it from the session.')
    return
  end
  local params = { sessionId = session_id, ruleId = rule.ruleId, saved = saved }
  client.request('deputy/rule/remove', params, function(result)
    if vim.api.nvim_buf_is_valid(buf) then
      show(buf, result.rules)
    end
  end)
end

--- Opens the window for a session.
---@param session_id string
function M.open(session_id)
  client.request('deputy/rule/list', { sessionId = session_id }, function(result)
    local buf = vim.api.nvim_create_buf(false, true)
    vim.bo[buf].bufhidden, vim.bo[buf].filetype = 'wipe', 'deputy-rules'
    vim.api.nvim_buf_set_name(buf, 'deputy://rules/' .. buf)
    vim.cmd('botright split')
    vim.api.nvim_win_set_buf(0, buf)
    vim.wo[0][0].winbar =
      text.bar('Permission rules   dd removes for this session   D removes from its file   q closes ')
    vim.wo[0][0].wrap = false
    show(buf, result.rules)
    local function map(key, act, desc)
      vim.keymap.set('n', key, act, { buffer = buf, nowait = true, desc = 'Deputy: ' .. desc })
    end
    map('dd', function()
      remove(buf, session_id, false)
    end, 'remove the rule for this session')
    map('D', function()
      remove(buf, session_id, true)
    end, 'remove the rule from its file')
    map('q', '<Cmd>close<CR>', 'close')
  end)
end

return M
