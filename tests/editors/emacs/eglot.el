;;; eglot.el --- the user with eglot  -*- lexical-binding: t -*-

(require 'eglot)

(defun drive-running ()
  "The labels of the running sub-agents."
  (mapcar (lambda (agent) (plist-get agent :label))
          (seq-filter (lambda (agent)
                        (and (equal (plist-get agent :status) "running") (plist-get agent :parentAgentId)))
                      (plist-get (deputy--ask "deputy.listAgents" '(:sessionId nil)) :agents))))

(setq eglot-sync-connect drive-patience
      eglot-autoshutdown nil)
(find-file "notes.txt")
(apply #'eglot (eglot--guess-contact))
(drive-user)
(eglot-shutdown (eglot-current-server) nil drive-patience)
