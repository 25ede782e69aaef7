;;; lspmode.el --- the user with lsp-mode  -*- lexical-binding: t -*-

(defvar lsp-session-file (expand-file-name "lsp-session" user-emacs-directory))
(require 'lsp-mode)

(defvar drive-agents nil "The last response of Deputy.")

(defun drive-running ()
  "The labels of the running sub-agents, from the last response."
  (deputy--run "deputy.listAgents" '(:sessionId nil) (lambda (found) (setq drive-agents (lsp-get found :agents))))
  (mapcar (lambda (agent) (lsp-get agent :label))
          (seq-filter (lambda (agent)
                        (and (equal (lsp-get agent :status) "running") (lsp-get agent :parentAgentId)))
                      drive-agents)))

(setq lsp-auto-guess-root t
      lsp-enable-file-watchers nil
      lsp-restart 'ignore)
(advice-add 'lsp-on-progress-modeline :before
            (lambda (_ params) (drive-log "progress" (lsp-get (lsp-get params :value) :kind))))
(lsp-workspace-folders-add default-directory)
(find-file "notes.txt")
(lsp)
(drive-until "a server" (lambda () (when-let ((server (lsp-find-workspace 'deputy nil)))
                                     (eq 'initialized (lsp--workspace-status server)))))
(drive-user)
(with-lsp-workspace (lsp-find-workspace 'deputy nil) (lsp--shutdown-workspace))
