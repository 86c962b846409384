package proc

// A keeper needs nothing of what the rest of its program prepares before main, and a user waits for it: so it starts as
// soon as this package is ready, which is before the packages that take long (gRPC, protobuf) are. In every other
// process this does nothing.
func init() { KeeperMain() }
