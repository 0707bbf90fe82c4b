package arctic

// ByPriority is the levels in the order of everything done: replies before requests (thesis 2.10).
var ByPriority = [Levels]Level{Reply, Request}
