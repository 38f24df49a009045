# Stands where commands look for an editor: nobody is there to write in one, so it says what to do instead, and fails.
echo "No editor can be opened here. Give the text in the command (git commit -m TEXT, git commit --amend --no-edit," >&2
echo "git merge --no-edit, GIT_EDITOR=true git rebase --continue), or write the file with a tool." >&2
exit 1
