"""Small building blocks for tasks that wait for each other. They know nothing of agents or sessions."""
