/** An item in the status bar that renews the window: a new session, no editor, no notification, and the chat in sight. */
const vscode = require("vscode");

const run = vscode.commands.executeCommand;

exports.activate = ({ subscriptions }) => {
  const item = vscode.window.createStatusBarItem("renewals", vscode.StatusBarAlignment.Left, -100);
  item.command = "renewal.renew";
  item.text = "renewed 0";
  item.show();
  let count = 0;
  const command = vscode.commands.registerCommand("renewal.renew", async () => {
    try {
      await renew();
      item.text = `renewed ${++count}`;
    } catch (error) {
      item.text = `not renewed: ${error}`;
    }
  });
  subscriptions.push(item, command);
};

async function renew() {
  await run("deputy.cancel");
  while (vscode.window.activeTextEditor?.document.isDirty) await run("workbench.action.revertAndCloseActiveEditor");
  await run("workbench.action.closeAllEditors");
  await run("deputy.session.new"); // and shows the chat
  await run("notifications.clearAll");
}
