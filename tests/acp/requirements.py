"""What the protocol requires of an agent, one sentence each, and which test shows it.

A test cites a requirement as `R` and its number. A row says how binding it is, what it asks for, and where that is
written: a page of agentclientprotocol.com (protocol version 1), a section of JSON-RPC 2.0, or a definition of the
schema in `fixtures/acp/v1.json`. Where neither says a word, the bar is this program's own and the source is `OURS`.

`COVERED` names tests as `folder/module::name`, `NOT_COVERED` says in words why there is none yet, and `IN_PART` what
the named tests leave open. `test_requirements` holds all three to the tests themselves: each cites its numbers in its
docstring.
"""

from typing import Literal, NamedTuple

OURS = "this program's own bar"

Binding = Literal["must", "must where advertised", "should", "ours"]


class Requirement(NamedTuple):
    binding: Binding
    says: str
    source: str


def must(says: str, source: str) -> Requirement:
    return Requirement("must", says, source)


def gated(says: str, source: str) -> Requirement:
    return Requirement("must where advertised", says, source)


def should(says: str, source: str) -> Requirement:
    return Requirement("should", says, source)


def ours(says: str) -> Requirement:
    return Requirement("ours", says, OURS)


REQUIREMENTS: dict[int, Requirement] = {
    # framing
    1: must("Whatever is written to stdout is JSON-RPC: one object a line, of version 2.0.", "Transports, stdio"),
    2: must("What is written to stdout is UTF-8, whatever bytes a tool's output had.", "Transports, stdio"),
    3: must("A message is one line, and any text survives being put into it.", "Transports, stdio"),
    4: must("Only messages reach stdout, whoever prints, and none before the first request.", "Transports, stdio"),
    5: ours("Where the input is cut into reads makes no difference."),
    6: ours("Carriage returns before a newline, and blank lines, do no harm."),
    7: should("What is no JSON gets a parse error with id null, and the connection goes on.", "JSON-RPC 2.0, 5.1"),
    8: should("What is no UTF-8 gets a parse error with id null, and the connection goes on.", "JSON-RPC 2.0, 5.1"),
    9: should("An array is refused once, as an invalid request with id null: ACP has no batches.", "JSON-RPC 2.0, 6"),
    10: should("A line that holds a bare value is an invalid request, and nothing ends by it.", "JSON-RPC 2.0, 5.1"),
    11: should("An object that is neither a call nor an answer is an invalid request.", "JSON-RPC 2.0, 5.1"),
    12: ours("A prompt of 10 MiB is taken; a line beyond the bound is refused without being held in memory."),
    13: ours("JSON made to hurt its reader (deep, marked, unpaired, huge) is answered with an error and survived."),
    # JSON-RPC
    14: must("An answer bears the id of its request, with the same value and type.", "JSON-RPC 2.0, 5"),
    15: must("An answer has a result or an error, and not both; an error has a code and a message.", "JSON-RPC 2.0, 5"),
    16: must("A notification gets no answer, be it understood or not.", "JSON-RPC 2.0, 4.1"),
    17: should("A method that is not there is answered with -32601.", "JSON-RPC 2.0, 5.1"),
    18: should("After an error of any kind the connection serves as before.", "JSON-RPC 2.0, 5.1"),
    19: must("A request of an extension that nobody knows is answered all the same.", "Extensibility"),
    20: should("A notification that nobody knows is passed over.", "Extensibility"),
    21: ours("An answer that nobody waits for, or that comes twice, is passed over."),
    22: ours("Absent and null params stand for an empty object where every member is optional."),
    23: should("An error's message is a line of words; its data shows no internals and no secret.", "schema: Error"),
    24: ours("A request whose id is already under way is refused, and the one under way goes on."),
    25: ours("One session's slow work delays no request of another, and no new session."),
    # initialization and authentication
    26: must("`initialize` is answered in the schema's shape and agrees on version 1.", "Initialization"),
    27: must("A version that is not spoken here is answered with the newest that is.", "Initialization"),
    28: should("The agent says its name and version, and the version is the package's.", "Initialization"),
    29: must("A capability that the client leaves out, or garbles, counts as not there.", "Initialization"),
    30: must("A version that is missing, or no 16-bit integer, makes the params invalid.", "schema: ProtocolVersion"),
    31: should("Before `initialize` any other request is refused, and `initialize` may follow.", "Initialization"),
    32: must("A terminal login is offered only to a client that says it has a terminal for it.", "Authentication"),
    33: should("Every way to authenticate has an id of its own, and one needs no terminal.", "Authentication"),
    34: must("The first line of stdout answers `initialize`, in an empty home too, within seconds.", "Initialization"),
    35: should("To authenticate in a way that was not offered, or is not the agent's, is refused.", "Authentication"),
    36: should("Where credentials are missing, -32000 says so and what to set.", "Authentication; schema: ErrorCode"),
    37: gated("`logout` answers an object where it is advertised, and is unknown where it is not.", "Authentication"),
    38: must("A capability is advertised exactly if its methods are served.", "Initialization"),
    # sessions
    39: must("A new session has an id that no other has.", "Session Setup, creating a session"),
    40: should("A folder that is not absolute, or a list of servers that is none, is refused.", "Session Setup"),
    41: must("Relative paths start at the session's folder, wherever the process was started.", "Session Setup, cwd"),
    42: ours("Nothing is said of a new session before its id is out."),
    43: must("MCP servers on stdio are started for the session; one that fails is named.", "Session Setup, MCP"),
    44: gated("A load shows the whole conversation in order, and is answered behind it.", "Session Setup, load"),
    45: should("An empty result is an empty object.", "schema: LoadSessionResponse, CloseSessionResponse"),
    46: gated("A resume shows nothing of what was, and the model knows it all.", "Session Setup, resume"),
    47: gated("Sessions can be loaded and resumed by another process than the one that made them.", "Session Setup"),
    48: should("A session that is not there is answered with -32002 and its id.", "schema: ErrorCode"),
    49: gated("The list is an array, knows each session once, and comes in pages.", "Session List"),
    50: should("A cursor that the agent did not give is refused.", "Session List, pagination"),
    51: gated("A deleted session leaves the list, and deleting it again is no error.", "Session Delete"),
    52: gated("Closing cancels what runs in the session and frees what it held.", "Session Setup, close"),
    53: gated("Further folders join the ones that file tools keep to; each must be absolute.", "Session Setup"),
    54: gated("Without the capability, further folders are never granted in silence.", "Session Setup"),
    # prompts and updates
    55: must("A prompt ends with one of the protocol's reasons to stop.", "Prompt Turn, stop reasons"),
    56: must("Every update has a shape of the schema and the id of its session.", "schema: SessionNotification"),
    57: must("A link to a resource is taken in every prompt.", "Initialization"),
    58: gated("Images, audio and embedded resources are taken if advertised, and refused if not.", "Content"),
    59: should("No object that is sent has a root member of its own; those go to `_meta`.", "Extensibility, _meta"),
    60: ours("All updates of a turn come before its answer, and then nothing more."),
    61: ours("A call is announced before it is updated, moves forward only, and is closed in the end."),
    62: ours("The chunks of one message id are one text, and no other message has that id."),
    63: must("Every update of the plan holds the whole plan.", "Agent Plan, updating plans"),
    64: must("Paths are absolute, lines count from 1, and a new file has no old text.", "Overview"),
    65: ours("A model that fails, stalls or breaks off costs the turn and not the session."),
    66: ours("A prompt during another one waits for it; two turns never mix."),
    67: must("A prompt without a word is answered, and holds nothing up.", "schema: PromptRequest"),
    68: gated("Notices, compactions, plan operations, subagents: only for clients that take them.", "Initialization"),
    69: should("Trace context in `_meta` is taken, and no reason to fail if it is malformed.", "Extensibility, _meta"),
    70: ours("What stands in `_meta` decides for no session and no route."),
    # cancellation
    71: must("A cancelled prompt is answered with `cancelled` and never with an error.", "Prompt Turn, cancellation"),
    72: must("No update of a turn follows the answer that it was cancelled.", "Prompt Turn, cancellation"),
    73: must("A cancel while permission is asked runs nothing, whichever arrives first.", "Prompt Turn, cancellation"),
    74: must("A cancel ends the tools at work with all that they started.", "Prompt Turn, cancellation"),
    75: ours("A cancel that arrives together with its prompt is heard."),
    76: must("A cancel of nothing is nothing, and spares the next prompt.", "Prompt Turn, cancellation"),
    77: must("A request that is taken back is answered once, with a result or -32800.", "Cancellation"),
    78: should("What was asked of the client is taken back with its turn; no answer is waited for.", "Cancellation"),
    79: ours("After a cancel the session goes on, and every call in its history has a result."),
    # what is asked of the client
    80: must("Of a client that offers nothing, nothing is asked but permission.", "Initialization"),
    81: must("A client that reads files is not asked to write them, unless it says that it does.", "File System"),
    82: must("Every terminal that was made is released once, however its command ended.", "Terminals"),
    83: must("Only a clear yes runs a call, and lasts as far as it was said to.", "Tool Calls, requesting permission"),
    84: gated("Forms are used where they are offered, and every way not to fill one in is taken.", "Elicitation"),
    # options and modes
    85: gated("The current mode and values are among those on offer.", "Session Modes; Session Config Options"),
    86: gated("A mode can be set, is told by the schema's name, and is refused if unknown.", "Session Modes"),
    87: gated("Setting an option answers with all; the mode is the same in both lists.", "Session Config Options"),
    88: must("Options of true and false go only to clients that take them.", "Session Config Options"),
    89: should("An option or value that is not on offer is refused, and changes nothing.", "Session Config Options"),
    # the end, and what is held meanwhile
    90: should("The end of the input ends the process, in order and soon, with code 0.", "Transports, stdio"),
    91: ours("Started on an empty input, the process ends with code 0 and not a word."),
    92: ours("A client that stops listening ends the process without noise."),
    93: ours("A signal ends the process as the end of the input does, with 128 and its number as the code."),
    94: ours("A client that does not read fills no memory here, and can still cancel."),
    95: ours("Sessions that were closed leave no descriptor, task or child behind."),
    96: ours("What goes to stderr is little, and names no prompt and no key."),
    97: ours("Before `initialize` is answered, nothing heavy is imported."),
}

LAST = max(REQUIREMENTS)

NOT_COVERED: dict[int, str] = {
    54: "the capability for additional directories is advertised, so there is no agent here without it",
    82: "commands run under a guard of our own; no terminal of the client's is ever created (see 80)",
}

IN_PART: dict[int, str] = {
    36: "credentials come from the environment at start, so none can appear after `authenticate` in the same process",
    43: "that a server which fails is named is shown here; that tools of one reach the model, beside MCP's own tests",
    68: "the agent sends no compaction, plan operation or subagent updates at all",
    69: "trace context is taken and passed on to nobody",
    97: "what is imported is asserted, the time is not: a loaded machine would make it a lottery; see tests/bench",
}

COVERED: dict[int, tuple[str, ...]] = {
    1: ("acp/test_framing.py::test_every_line_of_a_turn_is_one_json_object_of_version_2",),
    2: ("acp/test_framing.py::test_tool_output_with_invalid_bytes_comes_as_valid_utf_8",),
    3: (
        "acp/test_framing.py::test_a_text_with_newlines_separators_and_nul_comes_whole",
        "acp/test_framing.py::test_a_prompt_with_newlines_separators_and_nul_is_replayed_as_it_was",
    ),
    4: ("acp/test_framing.py::test_what_tools_libraries_and_children_print_never_reaches_stdout",),
    5: ("acp/test_framing.py::test_however_the_input_is_cut_the_answers_are_the_same",),
    6: ("acp/test_framing.py::test_carriage_returns_and_blank_lines_are_tolerated",),
    7: ("acp/test_framing.py::test_malformed_json_is_a_parse_error_and_the_connection_lives",),
    8: ("acp/test_framing.py::test_invalid_utf_8_is_a_parse_error_and_the_connection_lives",),
    9: ("acp/test_framing.py::test_a_batch_is_one_invalid_request",),
    10: ("acp/test_framing.py::test_a_scalar_is_an_invalid_request",),
    11: ("acp/test_framing.py::test_an_object_that_is_no_message_is_an_invalid_request",),
    12: (
        "acp/test_framing.py::test_a_prompt_of_10_mib_is_taken",
        "acp/test_framing.py::test_a_line_of_100_mib_is_an_error_held_by_nobody_and_the_connection_goes_on",
    ),
    13: ("acp/test_framing.py::test_hostile_json_gets_an_error_and_the_process_lives",),
    14: ("acp/test_jsonrpc.py::test_an_id_comes_back_with_its_value_and_type",),
    15: ("acp/test_jsonrpc.py::test_an_answer_has_either_a_result_or_an_error",),
    16: ("acp/test_jsonrpc.py::test_a_notification_is_never_answered",),
    17: ("acp/test_jsonrpc.py::test_an_unknown_method_is_not_found",),
    18: ("acp/test_jsonrpc.py::test_the_connection_is_usable_after_each_kind_of_error",),
    19: ("acp/test_jsonrpc.py::test_an_unknown_extension_request_is_answered_as_not_found",),
    20: ("acp/test_jsonrpc.py::test_an_unknown_extension_notification_is_ignored",),
    21: ("acp/test_jsonrpc.py::test_responses_that_nobody_waits_for_are_ignored",),
    22: ("acp/test_jsonrpc.py::test_absent_and_null_params_are_as_an_empty_object",),
    23: ("acp/test_jsonrpc.py::test_an_error_is_one_line_without_internals",),
    24: ("acp/test_jsonrpc.py::test_an_id_in_flight_is_refused_and_the_running_request_goes_on",),
    25: (
        "acp/test_jsonrpc.py::test_requests_to_different_sessions_run_side_by_side",
        "e2e/test_sessions_side_by_side.py::test_a_slow_command_in_one_session_does_not_delay_the_other",
        "e2e/test_start.py::test_what_comes_before_the_warm_up_is_done_waits_and_is_answered_in_order",
    ),
    26: ("acp/test_initialize.py::test_initialize_is_answered_with_version_1_and_who_answers",),
    27: ("acp/test_initialize.py::test_another_version_is_answered_with_the_newest_of_ours",),
    28: ("acp/test_initialize.py::test_initialize_is_answered_with_version_1_and_who_answers",),
    29: ("acp/test_initialize.py::test_whatever_the_client_says_of_itself_it_is_answered",),
    30: (
        "acp/test_initialize.py::test_a_version_that_is_none_is_refused_and_the_next_try_counts",
        "clients/test_acplint.py::test_a_client_that_never_gets_past_the_handshake_is_told_why",
    ),
    31: (
        "acp/test_initialize.py::test_another_request_first_is_invalid_and_initialize_still_works",
        "e2e/test_start.py::test_what_comes_before_the_warm_up_is_done_waits_and_is_answered_in_order",
    ),
    32: ("acp/test_initialize.py::test_no_terminal_login_is_offered_to_a_client_without_a_terminal",),
    33: ("acp/test_initialize.py::test_without_credentials_a_way_to_get_some_is_offered",),
    34: ("acp/test_initialize.py::test_the_first_line_is_the_answer_to_initialize_in_an_empty_home",),
    35: ("acp/test_initialize.py::test_an_unknown_way_to_authenticate_is_refused",),
    36: (
        "acp/test_initialize.py::test_without_a_model_a_session_needs_authentication_and_says_what_to_set",
        "acp/test_initialize.py::test_with_a_model_nothing_asks_for_authentication",
        "acp/test_initialize.py::test_a_key_that_the_provider_refuses_needs_authentication",
        "e2e/test_start.py::test_an_unusable_model_does_not_keep_the_agent_from_starting",
        "clients/test_typescript_sdk.py::test_an_error_arrives_with_what_to_show",
    ),
    37: ("acp/test_initialize.py::test_logout_is_unknown_since_it_is_not_advertised",),
    38: ("acp/test_initialize.py::test_what_is_advertised_is_routed_and_what_is_not_is_unknown",),
    39: ("acp/test_sessions.py::test_a_new_session_has_an_id_of_its_own",),
    40: (
        "acp/test_sessions.py::test_a_session_that_is_asked_for_wrongly_is_refused",
        "acp/test_sessions.py::test_null_for_a_list_is_an_empty_list",
    ),
    41: ("acp/test_sessions.py::test_tools_work_in_the_sessions_folder_and_not_in_the_processs",),
    42: ("acp/test_sessions.py::test_nothing_about_a_new_session_comes_before_its_id",),
    43: ("acp/test_sessions.py::test_a_server_that_does_not_start_is_named_and_the_session_goes_on",),
    44: (
        "acp/test_sessions.py::test_a_loaded_session_is_shown_as_it_was_before_the_answer",
        "e2e/test_official_client.py::test_a_session_is_listed_loaded_and_resumed_by_the_next_process",
        "clients/test_python_sdk.py::test_a_cancelled_command_is_cancelled_and_its_session_loads",
        "clients/test_typescript_sdk.py::test_a_session_goes_on_after_its_agent_was_killed_in_a_command",
    ),
    45: ("acp/test_sessions.py::test_results_without_anything_to_say_are_empty_objects",),
    46: (
        "acp/test_sessions.py::test_a_session_goes_on_in_the_next_process_with_all_that_was_said",
        "e2e/test_official_client.py::test_a_session_is_listed_loaded_and_resumed_by_the_next_process",
        "clients/test_typescript_sdk.py::test_a_session_goes_on_after_its_agent_was_killed_in_a_command",
    ),
    47: (
        "acp/test_sessions.py::test_a_session_goes_on_in_the_next_process_with_all_that_was_said",
        "e2e/test_official_client.py::test_a_session_is_listed_loaded_and_resumed_by_the_next_process",
        "clients/test_typescript_sdk.py::test_a_session_goes_on_after_its_agent_was_killed_in_a_command",
    ),
    48: (
        "acp/test_sessions.py::test_an_unknown_session_is_not_found",
        "e2e/test_official_client.py::test_what_the_agent_refuses_is_an_error_that_the_sdk_understands",
    ),
    49: (
        "acp/test_sessions.py::test_a_list_of_nothing_is_empty",
        "acp/test_sessions.py::test_a_new_session_is_listed_under_its_folder",
        "acp/test_sessions.py::test_a_list_goes_from_page_to_page_and_shows_each_session_once",
        "e2e/test_official_client.py::test_a_session_is_listed_loaded_and_resumed_by_the_next_process",
    ),
    50: ("acp/test_sessions.py::test_a_cursor_that_is_none_of_ours_is_refused",),
    51: ("acp/test_sessions.py::test_a_deleted_session_is_gone_and_deleting_it_again_succeeds",),
    52: (
        "acp/test_sessions.py::test_an_idle_session_is_closed_and_can_be_loaded_again",
        "acp/test_sessions.py::test_closing_ends_the_prompt_as_cancelled_and_what_it_started",
        "e2e/test_sessions_side_by_side.py::test_closing_and_loading_in_one_write_close_and_load",
    ),
    53: (
        "acp/test_sessions.py::test_a_session_that_is_asked_for_wrongly_is_refused",
        "acp/test_sessions.py::test_further_folders_are_free_to_read_and_all_else_is_not",
    ),
    55: (
        "acp/test_prompt.py::test_a_text_prompt_ends_with_a_stop_reason",
        "acp/test_prompt.py::test_the_models_end_is_the_turns_end",
        "acp/test_prompt.py::test_a_turn_that_asks_too_often_ends_with_max_turn_requests",
        "e2e/test_official_client.py::test_an_edit_and_a_command_with_permission_are_done_and_shown_in_order",
        "clients/test_typescript_sdk.py::test_tools_are_run_with_permission_and_shown",
    ),
    56: (
        "acp/test_prompt.py::test_every_update_names_its_session",
        "e2e/test_sessions_side_by_side.py::test_updates_of_two_streams_never_cross",
    ),
    57: ("acp/test_prompt.py::test_a_resource_link_is_taken_and_reaches_the_log",),
    58: (
        "acp/test_prompt.py::test_an_embedded_text_is_taken_since_it_is_advertised",
        "acp/test_prompt.py::test_a_block_is_taken_exactly_if_it_is_advertised",
        "acp/test_prompt.py::test_a_block_that_is_none_is_refused",
    ),
    59: ("acp/test_prompt.py::test_no_object_has_a_member_that_the_schema_does_not_name",),
    60: ("acp/test_prompt.py::test_all_updates_precede_the_answer_and_then_it_is_quiet",),
    61: (
        "acp/test_prompt.py::test_a_call_is_announced_moves_forward_and_is_closed",
        "acp/test_prompt.py::test_calls_marked_parallel_all_get_their_results",
        "e2e/test_official_client.py::test_an_edit_and_a_command_with_permission_are_done_and_shown_in_order",
        "clients/test_typescript_sdk.py::test_tools_are_run_with_permission_and_shown",
    ),
    62: ("acp/test_prompt.py::test_the_chunks_of_a_message_are_its_text_and_messages_have_ids_of_their_own",),
    63: ("acp/test_prompt.py::test_a_plan_is_shown_whole_each_time",),
    64: (
        "acp/test_prompt.py::test_paths_are_absolute_and_a_new_file_has_no_old_text",
        "e2e/test_official_client.py::test_an_edit_and_a_command_with_permission_are_done_and_shown_in_order",
        "clients/test_typescript_sdk.py::test_tools_are_run_with_permission_and_shown",
    ),
    65: (
        "acp/test_prompt.py::test_a_models_failure_is_an_error_and_the_session_goes_on",
        "acp/test_prompt.py::test_a_failure_that_passes_is_tried_again_and_shown_as_one_message",
        "acp/test_prompt.py::test_failures_that_do_not_pass_end_the_turn_with_an_error",
    ),
    66: (
        "acp/test_prompt.py::test_a_second_prompt_waits_for_the_first",
        "e2e/test_cancel.py::test_a_cancel_drops_the_prompts_that_wait",
    ),
    67: (
        "acp/test_prompt.py::test_an_empty_prompt_is_refused",
        "acp/test_prompt.py::test_a_prompt_of_nothing_but_blanks_is_a_turn",
    ),
    68: (
        "acp/test_prompt.py::test_a_client_that_takes_no_notices_gets_none",
        "acp/test_prompt.py::test_a_client_that_takes_notices_gets_them",
    ),
    69: ("acp/test_prompt.py::test_trace_context_is_taken_and_a_malformed_one_ignored",),
    70: ("acp/test_prompt.py::test_what_stands_in_meta_routes_nothing",),
    71: (
        "e2e/test_cancel.py::test_a_cancel_while_the_model_streams_ends_the_turn_as_cancelled",
        "e2e/test_cancel.py::test_a_cancel_of_a_flood_is_heard",
        "e2e/test_cancel.py::test_a_cancel_before_the_models_first_word_shows_no_word",
        "e2e/test_cancel.py::test_a_cancel_while_a_retry_is_waited_for_ends_the_wait",
        "e2e/test_cancel.py::test_cancelling_twice_is_cancelling_once",
        "e2e/test_cancel.py::test_a_cancel_drops_the_prompts_that_wait",
        "e2e/test_sessions_side_by_side.py::test_cancelling_one_session_leaves_the_other_alone",
        "clients/test_python_sdk.py::test_a_cancelled_command_is_cancelled_and_its_session_loads",
        "clients/test_typescript_sdk.py::test_a_cancel_is_an_ordinary_answer",
    ),
    72: (
        "e2e/test_cancel.py::test_a_cancel_while_the_model_streams_ends_the_turn_as_cancelled",
        "clients/test_typescript_sdk.py::test_a_cancel_is_an_ordinary_answer",
    ),
    73: (
        "e2e/test_cancel.py::test_a_cancel_during_a_question_runs_nothing_in_either_order",
        "e2e/test_cancel.py::test_a_yes_and_a_cancel_in_one_write_end_the_turn_as_cancelled",
        "e2e/test_cancel.py::test_after_a_cancelled_question_the_next_one_is_not_asked",
        "e2e/test_official_client.py::test_a_dismissed_question_cancels_the_turn",
    ),
    74: (
        "e2e/test_cancel.py::test_a_cancel_during_a_command_ends_its_whole_tree_within_a_second",
        "clients/test_python_sdk.py::test_a_cancelled_command_is_cancelled_and_its_session_loads",
    ),
    75: ("e2e/test_cancel.py::test_a_cancel_in_the_same_write_as_the_prompt_is_heard",),
    76: (
        "e2e/test_cancel.py::test_an_idle_cancel_is_nothing",
        "e2e/test_cancel.py::test_a_cancel_in_the_same_write_before_the_prompt_is_not_its_own",
    ),
    77: (
        "e2e/test_cancel.py::test_a_prompt_taken_back_by_its_id_is_answered_once",
        "e2e/test_cancel.py::test_a_waiting_prompt_taken_back_leaves_the_running_one_alone",
        "e2e/test_cancel.py::test_taking_back_what_is_not_there_is_nothing",
        "e2e/test_cancel.py::test_a_session_new_taken_back_is_answered_once",
        "clients/test_typescript_sdk.py::test_a_request_given_up_by_its_signal_is_answered",
    ),
    78: (
        "acp/test_client_calls.py::test_a_write_that_the_editor_never_answers_is_aborted_and_not_failed",
        "e2e/test_cancel.py::test_a_question_is_taken_back_and_a_late_answer_changes_nothing",
    ),
    79: (
        "e2e/test_cancel.py::test_a_cancel_while_the_model_streams_ends_the_turn_as_cancelled",
        "e2e/test_cancel.py::test_a_cancel_during_a_question_runs_nothing_in_either_order",
        "e2e/test_cancel.py::test_a_cancel_during_a_command_ends_its_whole_tree_within_a_second",
    ),
    80: ("acp/test_client_calls.py::test_of_a_client_that_can_nothing_nothing_special_is_asked",),
    81: (
        "acp/test_client_calls.py::test_what_the_editor_has_not_saved_is_read_through_it_and_written_to_the_disk",
        "acp/test_client_calls.py::test_an_editor_that_writes_is_given_the_text",
        "acp/test_client_calls.py::test_an_editor_that_cannot_read_fails_the_call_and_not_the_turn",
    ),
    83: (
        "acp/test_client_calls.py::test_a_question_shows_what_will_be_done",
        "acp/test_client_calls.py::test_what_is_no_clear_yes_is_a_no_and_the_turn_goes_on",
        "acp/test_client_calls.py::test_a_choice_that_is_dismissed_cancels_the_turn",
        "acp/test_client_calls.py::test_a_dismissed_question_ends_the_turn_as_cancelled",
        "acp/test_client_calls.py::test_a_lasting_yes_holds_for_this_command_in_this_session_also_after_a_restart",
        "acp/test_client_calls.py::test_a_yes_for_once_is_for_once",
        "acp/test_client_calls.py::test_a_call_of_what_does_not_exist_asks_nobody",
        "acp/test_config.py::test_widening_the_mode_does_not_reach_the_call_that_is_being_asked_about",
        "e2e/test_official_client.py::test_what_is_refused_is_not_done_and_the_turn_goes_on",
        "clients/test_typescript_sdk.py::test_what_is_refused_is_not_done",
    ),
    84: (
        "acp/test_client_calls.py::test_a_choice_is_offered_as_buttons_where_there_is_no_form",
        "acp/test_client_calls.py::test_a_form_is_filled_in_or_not_and_the_turn_goes_on",
    ),
    85: ("acp/test_config.py::test_what_is_current_is_among_what_is_offered",),
    86: (
        "acp/test_config.py::test_a_mode_can_be_set_and_the_options_follow",
        "acp/test_config.py::test_an_unknown_mode_is_refused_and_changes_nothing",
        "acp/test_config.py::test_setting_an_option_answers_with_all_of_them_and_the_mode_is_told",
        "acp/test_config.py::test_a_mode_is_in_force_at_once",
        "clients/test_typescript_sdk.py::test_a_mode_and_an_option_are_set",
    ),
    87: (
        "acp/test_config.py::test_a_mode_can_be_set_and_the_options_follow",
        "acp/test_config.py::test_setting_an_option_answers_with_all_of_them_and_the_mode_is_told",
    ),
    88: ("acp/test_config.py::test_no_option_is_a_boolean",),
    89: (
        "acp/test_config.py::test_an_unknown_mode_is_refused_and_changes_nothing",
        "acp/test_config.py::test_an_unknown_option_or_value_is_refused_and_changes_nothing",
    ),
    90: (
        "acp/test_client_calls.py::test_a_write_that_the_end_of_the_input_leaves_open_is_aborted_and_not_failed",
        "acp/test_framing.py::test_half_a_line_at_the_end_of_the_input_is_nobodys",
        "e2e/test_ending.py::test_in_a_turn_the_process_ends_within_five_seconds_with_the_code_that_tells",
        "e2e/test_ending.py::test_what_the_turn_started_is_gone",
        "e2e/test_ending.py::test_a_turn_under_way_is_closed_by_the_loop_itself_and_the_prompt_answered",
        "e2e/test_ending.py::test_idle_the_process_ends_within_two_seconds",
        "e2e/test_ending.py::test_before_anything_is_asked_the_process_ends_at_once",
        "e2e/test_ending.py::test_half_a_line_and_the_end_in_a_turn_are_the_end",
    ),
    91: (
        "e2e/test_ending.py::test_stdin_on_the_null_device_is_the_end_of_the_input",
        "e2e/test_ending.py::test_a_missing_stderr_harms_nothing",
    ),
    92: ("e2e/test_ending.py::test_a_peer_that_closes_our_stdout_ends_the_process_quietly",),
    93: (
        "e2e/test_ending.py::test_in_a_turn_the_process_ends_within_five_seconds_with_the_code_that_tells",
        "e2e/test_ending.py::test_a_turn_under_way_is_closed_by_the_loop_itself_and_the_prompt_answered",
        "e2e/test_ending.py::test_idle_the_process_ends_within_two_seconds",
        "e2e/test_ending.py::test_before_anything_is_asked_the_process_ends_at_once",
        "e2e/test_ending.py::test_a_second_signal_ends_the_process_at_once_and_loses_nothing_settled",
        "e2e/test_ending.py::test_a_client_that_neither_reads_nor_hangs_up_cannot_keep_the_process",
    ),
    94: (
        "e2e/test_ending.py::test_a_client_that_stops_reading_fills_no_memory_and_can_still_cancel",
        "e2e/test_ending.py::test_a_client_that_neither_reads_nor_hangs_up_cannot_keep_the_process",
    ),
    95: ("e2e/test_ending.py::test_a_hundred_sessions_leave_nothing_behind",),
    96: ("e2e/test_ending.py::test_stderr_tells_neither_prompts_nor_keys",),
    97: (
        "e2e/test_start.py::test_nothing_heavy_is_imported_before_the_answer_to_initialize",
        "e2e/test_start.py::test_the_probe_sees_what_is_imported_too_early",
        "e2e/test_start.py::test_a_scripted_route_imports_no_providers_sdk",
    ),
}
