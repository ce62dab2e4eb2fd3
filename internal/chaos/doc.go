// Package chaos puts load on a destination that faults were put in front of, and
// says what became of each message: Run makes the load, a Recorder listens to
// the events, and a Report holds what they add up to, with a page of HTML to
// look at.
//
// It proves one thing by itself: every message was delivered or is a dead letter.
// What was delivered is known from the events, what is dead from the letters as
// they were read back; a message that neither of them knows is lost. Of messages
// that sources take it only counts what the events say.
//
// Everything that is kept has a bound. Past it the timeline shows a sample of the
// messages, each with its whole story; counts stay exact.
package chaos
