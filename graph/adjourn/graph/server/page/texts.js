// What the page says, in English and Chinese: key -> [English, Chinese].

const TEXTS = {
  skip: ["Skip to the run", "跳到运行内容"],
  waiting: ["Waiting for people", "等待人工处理"],
  runs: ["Runs", "运行"],
  none_waiting: ["Nothing waits. When a run asks, it appears here.", "没有等待处理的问题。运行提问时会出现在这里。"],
  no_runs: ["No runs yet.", "还没有运行。"],
  choose: ["Choose a run, or start one.", "请选择一个运行，或新建一个。"],
  you_are: ["You are {person}", "当前用户：{person}"],
  unnamed: ["without a name", "未署名"],
  live: ["Live", "实时"],
  offline: ["Not connected; trying again…", "连接中断，正在重试…"],
  language: ["Language", "语言"],
  message: ["What should the assistant do?", "需要助手做什么？"],
  start: ["Start", "开始"],
  "status.running": ["working", "进行中"],
  "status.interrupted": ["waiting for people", "等待人工"],
  "status.finished": ["finished", "已完成"],
  "status.cancelled": ["cancelled", "已取消"],
  "status.failed": ["failed", "失败"],
  "reason.answered": ["answered", "已回答"],
  "reason.max_steps": ["step limit", "达到步数上限"],
  "reason.timeout": ["time limit", "超时"],
  "reason.too_many_fails": ["too many failures", "失败次数过多"],
  "reason.loop_detected": ["went in circles", "检测到循环"],
  "reason.no_evidence": ["no evidence found", "缺少依据"],
  "reason.budget_spent": ["budget spent", "预算用尽"],
  "reason.protocol_error": ["the model could not be understood", "模型输出无法解析"],
  "reason.dismissed": ["passed over by a new message", "被新消息取代"],
  "reason.cancelled": ["cancelled", "已取消"],
  "call.running": ["runs", "执行中"],
  "call.waiting": ["waits for people", "等待人工"],
  "call.ok": ["done", "成功"],
  "call.failed": ["failed", "失败"],
  "call.invalid": ["not valid", "无效"],
  "call.denied": ["not permitted", "无权限"],
  "call.declined": ["declined", "被拒绝"],
  "call.dismissed": ["passed over", "被略过"],
  "call.expired": ["expired", "已过期"],
  "call.cancelled": ["cancelled", "已取消"],
  "call.skipped": ["skipped", "已跳过"],
  "call.repeated": ["repeated", "重复"],
  "call.unknown": ["outcome unknown", "结果未知"],
  step: ["Step {step}", "第 {step} 步"],
  steps: ["Steps", "步骤"],
  thinking: ["The model is working…", "模型正在处理…"],
  discarded: ["What was said here does not count ({reason}).", "这里的文字作废（{reason}）。"],
  answer: ["Answer", "回答"],
  took: ["{ms} ms", "{ms} 毫秒"],
  result: ["Result", "结果"],
  started_by: ["started by {by}", "发起人 {by}"],
  thread: ["conversation {id}", "会话 {id}"],
  cancel: ["Stop this run", "停止运行"],
  retry: ["Try again", "重试"],
  settled: ["{state} by {by}", "{by} 已处理：{state}"],
  "state.answered": ["answered", "已回答"],
  "state.open": ["approved, others are still needed", "已同意，尚需他人同意"],
  "state.expired": ["expired", "已过期"],
  "state.dismissed": ["passed over", "被略过"],
  "state.cancelled": ["cancelled", "已取消"],
  "type.params_required": ["Values are missing", "缺少参数"],
  "type.confirm_risky": ["Agreement is needed", "需要确认"],
  "type.outcome_unknown": ["Did this happen?", "这个操作执行了吗？"],
  "type.custom": ["A question", "问题"],
  arguments: ["Arguments", "参数"],
  approvals: ["{given} of {needed} have agreed", "{needed} 人中已有 {given} 人同意"],
  approvers: ["Who may agree: {of}", "可同意的人：{of}"],
  not_yours: ["Other people have to answer this.", "需要由其他人回答。"],
  expires: ["Answer before {at}", "请在 {at} 前回答"],
  decide: ["What should happen?", "如何处理？"],
  "action.approve": ["Approve", "同意"],
  "action.edit": ["Change and approve", "修改后同意"],
  "action.reject": ["Reject", "拒绝"],
  "action.happened": ["It happened", "已经生效"],
  "action.run": ["It did not: run it", "没有生效，执行"],
  "action.leave": ["Leave it", "搁置"],
  "hint.approve": ["It runs as it is.", "按原样执行。"],
  "hint.edit": ["It runs with your arguments.", "用修改后的参数执行。"],
  "hint.reject": ["It never runs; the model is told why.", "不会执行，并告诉模型原因。"],
  "hint.happened": ["It is not run again; say what came of it.", "不再执行，请填写结果。"],
  "hint.run": ["It is run now.", "现在执行。"],
  "hint.leave": ["Nobody knows; it is not run.", "无法确定，不再执行。"],
  "field.arguments": ["Arguments", "参数"],
  "field.answer": ["Answer", "回答"],
  "field.reason": ["Reason", "原因"],
  "field.result": ["Result", "结果"],
  send: ["Send the answer", "提交回答"],
  "send.approve": ["Approve", "同意"],
  "send.edit": ["Approve with these arguments", "按修改后的参数同意"],
  "send.reject": ["Reject", "拒绝"],
  sending: ["Sending…", "正在提交…"],
  sent: ["The answer was taken.", "回答已提交。"],
  required: ["needed", "必填"],
  optional: ["optional", "选填"],
  pick: ["Choose…", "请选择…"],
  yes: ["yes", "是"],
  no: ["no", "否"],
  nothing: ["nothing", "空"],
  one_a_line: ["One on each line.", "每行一项。"],
  as_json: ["As JSON.", "请填写 JSON。"],
  free: ["Text, or JSON.", "文字或 JSON。"],
  "wrong.required": ["A value is needed.", "必须填写。"],
  "wrong.json": ["This is not JSON: {why}", "不是有效的 JSON：{why}"],
  "wrong.number": ["This is not a number.", "不是有效的数字。"],
  "wrong.integer": ["This is not a whole number.", "不是有效的整数。"],
  "wrong.action": ["Choose one.", "请选择一项。"],
  wrong_answer: ["The answer was not accepted. Mend the fields that are marked.", "回答未被接受，请修改标出的字段。"],
  "problem.already_answered": ["Somebody answered first. Nothing was changed.", "已有人先回答，未作任何更改。"],
  "problem.expired": ["The time to answer had passed.", "回答时限已过。"],
  "problem.run_busy": ["The run is working just now. Try again in a moment.", "运行正在进行，请稍后再试。"],
  "problem.not_allowed": ["You may not do this.", "您无权执行此操作。"],
  "problem.shutting_down": ["The server is restarting. Try again in a moment.", "服务正在重启，请稍后再试。"],
  "problem.unreachable": ["The server cannot be reached. Nothing was lost; try again.", "无法连接服务器，内容未丢失，请重试。"],
  door: ["This server wants a token", "需要访问令牌"],
  token: ["Token", "令牌"],
  enter: ["Enter", "进入"],
  "said.question": ["New question: {reason}", "新问题：{reason}"],
  "said.ended": ["The run has ended: {status}", "运行已结束：{status}"],
};

const KEPT = "adjourn.language";
let language = localStorage.getItem(KEPT) ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");

export const LANGUAGES = { en: "English", zh: "中文" };
export const currentLanguage = () => language;

export function setLanguage(word) {
  language = word;
  localStorage.setItem(KEPT, word);
}

export function has(key) {
  return key in TEXTS;
}

export function say(key, values = {}) {
  const text = TEXTS[key]?.[language === "zh" ? 1 : 0] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export function time(text) {
  return new Date(text).toLocaleString(language === "zh" ? "zh-CN" : "en-GB", { dateStyle: "medium", timeStyle: "short" });
}
