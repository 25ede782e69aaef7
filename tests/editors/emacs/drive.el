;;; drive.el --- a user of Deputy at Emacs, played  -*- lexical-binding: t -*-

;; Loaded after the lines of editors/README.md. Answers what the editor asks by `drive-answers', a list of words in the
;; question and the choice, and prints what was asked and said as it comes.

(require 'cl-lib)

(defvar drive-answers nil)
(defvar drive-said nil "All messages, the latest first.")
(defvar drive-patience 45 "Seconds that anything may take.")

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
                (push (apply #'format form arguments) drive-said)
                (drive-log "said" (car drive-said)))))

(defun drive-until (what holds)
  (let ((end (+ (float-time) drive-patience)))
    (while (not (funcall holds))
      (when (> (float-time) end)
        (drive-log "missed" what)
        (kill-emacs 1))
      (accept-process-output nil 0.05))))

(defun drive-until-said (text)
  (drive-until text (lambda () (cl-some (lambda (said) (string-search text said)) drive-said))))

(defun drive-user ()
  "What the user does, in either client."
  (setq drive-answers '(("write_file(first.txt)" "Approve") ("write_file(second.txt)" "Deny") ("Stop:" "look for ever")))
  (deputy "edit both")
  (drive-until-said "All is done")
  (setq drive-said nil)
  (deputy "look around")
  (drive-until "one agent runs, the other has ended" (lambda () (equal '("look for ever") (drive-running))))
  (deputy-stop)
  (drive-until-said "All is done")
  (drive-log "user" "content"))
