package wire

// Read is read, for the tests of what is done with an answer.
var Read = read
