vim.treesitter.language.register('markdown', 'deputy')
-- Without a parser the transcript is not highlighted.
pcall(vim.treesitter.start, 0, 'markdown')
