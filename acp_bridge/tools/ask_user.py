"""`ask_user`: a question to the person in front, with answers to choose from or in their own words."""

from pydantic import Field

from acp_bridge.content import JsonObject, Text
from acp_bridge.errors import ToolError

from .arguments import Arguments
from .titles import title
from .tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

MAX_OPTIONS = 10


class _Arguments(Arguments):
    question: str = Field(min_length=1, max_length=4000)
    options: list[str] | None = Field(default=None, max_length=MAX_OPTIONS)


class AskUser:
    """Asks. Where nobody can be asked in a form, the model is told to ask in its answer."""

    spec = ToolSpec(
        name="ask_user",
        description=(
            "Ask the user something that you cannot find out and that decides how to go on. Give options where there "
            "are a few; leave them out for an answer in the user's own words. Never ask for a password or a key."
        ),
        parameters=_Arguments,
        effect="read",
        kind="other",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments."""
        return _Arguments.check(arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Show the question."""
        del workspace
        return Presentation(title=title("Ask:", arguments.get("question")), kind="other")

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Touch nothing."""
        del arguments, workspace
        return Access(kind="none")

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Return the answer.

        Raises:
            ToolError: nobody answered.
        """
        asked = _Arguments.of(arguments)
        options = tuple(dict.fromkeys(asked.options or ()))
        answer = await call.ask(asked.question, options)
        match answer.outcome:
            case "answered":
                return ToolOutput(content=(Text(text=f"The user answered: {answer.text}"),))
            case "declined":
                raise ToolError("The user did not want to answer. Go on as you think best, or stop and say why.")
            case "unable":
                raise ToolError(
                    "The user cannot be asked in a form here. Ask the question in your answer and end your turn."
                )
