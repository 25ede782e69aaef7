;;; drive.el --- a scripted user of Deputy in Emacs  -*- lexical-binding: t -*-

;; Loaded after the configuration in editors/README.md. Answers prompts of the editor from `drive-answers', a list of
;; texts in the prompt and choices, and prints prompts and messages.

(require 'cl-lib)

(defvar drive-answers nil)
(defvar drive-messages nil "All messages, newest first.")
(defvar drive-patience 45 "Time limit of each wait in seconds.")

(defun drive-log (kind text)
  (princ (format "%s %s\n" kind (replace-regexp-in-string "\n" "\\\\n" text))))

(defun drive-choose (prompt choices &rest _)
  (drive-log "asked" prompt)
  (let ((answer (cl-find-if (lambda (answer) (string-match-p (regexp-quote (car answer)) prompt)) drive-answers)))
    (cl-assert (or (null answer) (member (cadr answer) choices)) t)
    (cadr answer)))

(advice-add 'completing-read :override #'drive-choose)
(advice-add 'message :before
            (lambda (form &rest arguments)
              (when form
                (push (apply #'format form arguments) drive-messages)
                (drive-log "message" (car drive-messages)))))

(defun drive-until (what holds)
  (let ((end (+ (float-time) drive-patience)))
    (while (not (funcall holds))
      (when (> (float-time) end)
        (drive-log "missed" what)
        (kill-emacs 1))
      (accept-process-output nil 0.05))))

(defun drive-until-message (text)
  (drive-until text (lambda () (cl-some (lambda (message) (string-search text message)) drive-messages))))

(defun drive-user ()
  "The user's actions, the same in both clients."
  (setq drive-answers '(("write_file(first.txt)" "Approve") ("write_file(second.txt)" "Deny") ("Stop:" "look for ever")))
  (deputy "edit both")
  (drive-until-message "All is done")
  (setq drive-messages nil)
  (deputy "look around")
  (drive-until "one agent runs, the other has ended" (lambda () (equal '("look for ever") (drive-running))))
  (deputy-stop)
  (drive-until-message "All is done")
  (drive-log "user" "content"))
