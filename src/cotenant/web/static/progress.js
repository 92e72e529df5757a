/** What a job says of its progress, in the page's language. The sentences are a closed set; one that is not known stays
 *  as it is said. */
const ZH = [
  [/^reading the fleet$/, "读取集群"],
  [/^sizing candidates$/, "估算各种候选方式"],
  [/^packing$/, "装箱"],
  [/^a first plan is known$/, "已有第一个计划"],
  [/^planned$/, "计划已完成"],
  [/^writing down the reasons$/, "写下理由"],
  [/^looking at who may take turns$/, "查看哪些模型可以轮流使用显卡"],
  [/^no time left: placing greedily$/, "时间用尽：贪心放置"],
  [/^keeping what can stay$/, "保留可以不动的部分"],
  [/^ordering the steps$/, "排列步骤"],
  [/^with a spare, way (\d+) of (\d+)$/, "备用卡方案 $1/$2"],
  [/^replaying the plan, round (\d+)$/, "重放计划，第 $1 轮"],
  [/^replaying all peaks at once$/, "重放所有峰值同时到来的情形"],
  [/^looking for what would make (.+) fit$/, "寻找能放下 $1 的改法"],
  [/^with (.+) as one process$/, "让 $1 共用一个进程"],
  [/^drawing requests$/, "生成请求"],
  [/^simulating ([\d,]+) requests? on ([\d,]+) replicas?$/, "模拟 $2 个副本上的 $1 个请求"],
  [/^simulating, request ([\d,]+) of ([\d,]+)$/, "模拟第 $1 个请求，共 $2 个"],
  [/^simulating (\S+)$/, "模拟 $1"],
  [/^what it costs: (.+)$/, "代价：$1"],
  [/^without (.+)$/, "若没有 $1"],
];

export function progressText(line, lang) {
  if (lang !== "zh") return line;
  const [pattern, words] = ZH.find(([each]) => each.test(line)) ?? [];
  return pattern ? line.replace(pattern, words) : line;
}
