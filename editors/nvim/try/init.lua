--- `make try-nvim`: the plugin alone, on a sample project, with the offline model unless a key is set.
local root = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h:h')
vim.opt.runtimepath:prepend(root)
vim.g.mapleader, vim.g.maplocalleader = ' ', ','
vim.o.swapfile, vim.o.termguicolors = false, true
vim.o.statusline = " %t %m%=%<%{v:lua.require'deputy.statusline'.get()} "
vim.cmd.helptags(vim.fn.fnameescape(root .. '/doc'))
require('deputy').setup({})
vim.api.nvim_create_autocmd('VimEnter', {
  callback = function()
    require('deputy').open()
  end,
})
