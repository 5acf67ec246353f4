// Turns with a client: threads that share one are in the library one at a time, in the order of their arrival. A call
// that waits for the server gives up its turn every few milliseconds, so that no call waits for another one's deadline.
// There it also checks for signals, so that Ctrl-C ends it.
//
//     enter() -> in the library -> leave()
//                    |    ^
//      while_waiting()    its turn again       (a negative number: the call ends)
//
// Thread safety: a mutex, which is held for a few instructions, and never while waiting for the interpreter's lock.
// Threads sleep without the interpreter's lock. A thread other than the main one takes that lock only in enter() and
// leave(). When the interpreter ends, it ends threads that request its lock, which must not happen within the library.
#include "module.h"

#include <errno.h>
#include <semaphore.h>
#include <time.h>

enum {
  kAskAgainMs = 10,  // between two checks of a waiting call for signals and other threads
  kShortTurnMs = 1,  // the same while others wait for their turn
  kSliceMs = 20,     // between two checks for signals of the main thread while it waits for its turn
};

// A thread that waits, on its own stack.
struct Turn {
  Turn* next;
  unsigned long thread;
  sem_t wake;
  int has_come;
};

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int is_main(const Client* self) { return PyThread_get_thread_ident() == self->main_thread; }

// Finds the thread that handles signals. In a child of fork() it is the one that forked.
static unsigned long find_main_thread(void) {
  static PyObject *main_thread = NULL, *name = NULL;  // kept: the interpreter's cache of names would keep each new one
  if (main_thread == NULL) {
    PyObject* const threading = PyImport_ImportModule("threading");
    if (threading != NULL) main_thread = PyObject_GetAttrString(threading, "main_thread");
    Py_XDECREF(threading);
    name = PyUnicode_InternFromString("ident");
  }
  PyObject* const main = main_thread != NULL ? PyObject_CallNoArgs(main_thread) : NULL;
  PyObject* const ident = main != NULL && name != NULL ? PyObject_GetAttr(main, name) : NULL;
  const unsigned long thread = ident != NULL ? PyLong_AsUnsignedLong(ident) : 0;
  Py_XDECREF(main);
  Py_XDECREF(ident);
  return thread;
}

int begin_turns(Client* self) {
  self->main_thread = find_main_thread();
  pthread_mutex_init(&self->mutex, NULL);
  self->busy = 1;
  self->thread = PyThread_get_thread_ident();
  self->calls = 1;
  return !PyErr_Occurred();
}

static void take_turn(Client* self, unsigned long thread) {
  self->busy = 1;
  self->thread = thread;
  self->depth = 0;
}

// REQUIRES the mutex, like the functions below.
static void pass_turn(Client* self) {
  Turn* const next = self->turns;
  self->busy = 0;
  if (next == NULL) return;
  self->turns = next->next;
  take_turn(self, next->thread);
  next->has_come = 1;
  sem_post(&next->wake);
}

static void queue(Client* self, Turn* turn) {
  Turn** link = &self->turns;
  while (*link != NULL) link = &(*link)->next;
  *link = turn;
}

static void withdraw(Client* self, const Turn* turn) {
  Turn** link = &self->turns;
  while (*link != turn) link = &(*link)->next;
  *link = turn->next;
}

// Sleeps until the turn arrives, or until `until_ms`. REQUIRES that neither lock is held.
static void sleep_until(Turn* turn, int64_t until_ms) {
  struct timespec until = {.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000};
  while (sem_clockwait(&turn->wake, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR) {
  }
}

// Waits for this thread's turn. Returns 1: it has it; 0: timed out; -1: a signal's handler raised an exception.
static int wait_for_turn(Client* self, int64_t end_ms) {
  Turn turn = {.thread = PyThread_get_thread_ident()};
  const int looks_for_signals = is_main(self);
  int result = 1;
  sem_init(&turn.wake, 0, 0);
  pthread_mutex_lock(&self->mutex);
  if (!self->busy) {
    take_turn(self, turn.thread);
    turn.has_come = 1;
  } else {
    queue(self, &turn);
  }
  while (!turn.has_come && result == 1) {
    const int64_t now = now_ms();
    pthread_mutex_unlock(&self->mutex);
    PyThreadState* const state = PyEval_SaveThread();
    sleep_until(&turn, looks_for_signals && end_ms - now > kSliceMs ? now + kSliceMs : end_ms);
    // The turn is kept or withdrawn before the interpreter's lock is requested: see above.
    pthread_mutex_lock(&self->mutex);
    if (!turn.has_come && now_ms() >= end_ms) result = 0;
    if (!turn.has_come && self->busy && self->thread == turn.thread) result = 2;  // an outer call of this thread has it
    if (!turn.has_come && result != 1) withdraw(self, &turn);
    pthread_mutex_unlock(&self->mutex);
    PyEval_RestoreThread(state);
    const int interrupted = looks_for_signals && result == 1 && PyErr_CheckSignals() < 0;
    pthread_mutex_lock(&self->mutex);
    if (!interrupted) continue;
    result = -1;
    if (turn.has_come) {
      pass_turn(self);
    } else {
      withdraw(self, &turn);
    }
  }
  if (result == 2) ++self->depth;
  pthread_mutex_unlock(&self->mutex);
  sem_destroy(&turn.wake);
  return result == 2 ? 1 : result;
}

// Gives the turn to waiting threads, and waits until it comes back.
static void let_others(Client* self) {
  Turn turn = {.thread = PyThread_get_thread_ident()};
  sem_init(&turn.wake, 0, 0);
  pthread_mutex_lock(&self->mutex);
  const unsigned depth = self->depth;
  if (self->turns != NULL) {
    queue(self, &turn);
    pass_turn(self);
    while (!turn.has_come) {
      pthread_mutex_unlock(&self->mutex);
      sleep_until(&turn, INT64_MAX / 1000000);
      pthread_mutex_lock(&self->mutex);
    }
    self->depth = depth;
  }
  pthread_mutex_unlock(&self->mutex);
  sem_destroy(&turn.wake);
}

int64_t while_waiting(void* context) {
  Client* const self = context;
  int ends = 0;
  if (is_main(self)) {
    // Handlers may use the client, as this thread has the turn.
    const PyGILState_STATE state = PyGILState_Ensure();
    ends = PyErr_Occurred() != NULL || PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
  }
  if (ends) return -1;
  let_others(self);
  pthread_mutex_lock(&self->mutex);
  const int64_t next_ms = self->turns != NULL ? kShortTurnMs : kAskAgainMs;
  pthread_mutex_unlock(&self->mutex);
  return next_ms;
}

// The turn came late: the call has the rest of its time.
static void shorten(Options* options, int64_t end_ms) {
  const int64_t left_ms = end_ms - now_ms();
  if (options->handle == NULL) options->handle = farlook_options_new();
  if (options->handle != NULL) farlook_options_set(options->handle, "timeout_ms", left_ms > 0 ? left_ms : 1);
}

// enter() for a client that is used by another thread, or by an outer call of this one.
static int enter_later(Client* self, Options* options) {
  const int64_t timeout_ms = options != NULL && options->timeout_ms > 0 ? options->timeout_ms : self->timeout_ms;
  const int64_t begin_ms = now_ms(), most_ms = INT64_MAX / 1000000;
  const int64_t end_ms = timeout_ms < most_ms - begin_ms ? begin_ms + timeout_ms : most_ms;
  const int come = wait_for_turn(self, end_ms);
  if (come == 0) raise_code(FARLOOK_DEADLINE_EXCEEDED, "not done in time: other threads were using the client");
  if (come == 1 && options != NULL) shorten(options, end_ms);
  return come == 1;
}

int enter(Client* self, Options* options) {
  // Checked first, as a thread that is not in this process may have had the turn.
  if (self->forks != farlook_python_forks) {
    raise_code(FARLOOK_FAILED_PRECONDITION, "the client is of this process' parent: connect again after fork()");
    return 0;
  }
  const unsigned long thread = PyThread_get_thread_ident();
  pthread_mutex_lock(&self->mutex);
  int has_turn = 1;
  if (!self->busy) {
    take_turn(self, thread);
  } else if (self->thread == thread) {
    ++self->depth;  // a signal's handler, or a finalizer, within a call
  } else {
    has_turn = 0;
  }
  pthread_mutex_unlock(&self->mutex);
  if (!has_turn && !enter_later(self, options)) return 0;
  ++self->calls;
  if (self->client != NULL && (!self->closing || self->depth > 0)) return 1;
  leave(self, FARLOOK_OK);
  raise_code(FARLOOK_FAILED_PRECONDITION, "the client is closed");
  return 0;
}

int leave(Client* self, int code) {
  pthread_mutex_lock(&self->mutex);
  --self->calls;
  if (self->depth > 0) {
    --self->depth;
  } else {
    pass_turn(self);
  }
  pthread_mutex_unlock(&self->mutex);
  return PyErr_Occurred() != NULL ? kInterrupted : code;
}

int enter_alone(Client* self) {
  if (!enter(self, NULL)) return 0;
  if (self->depth > 0) {
    leave(self, FARLOOK_OK);
    raise_code(FARLOOK_FAILED_PRECONDITION, "a call of this thread is using the client");
    return 0;
  }
  self->closing = 1;
  while (self->calls > 1) {  // others, which wait for the server and for their turns
    UNLOCKED(let_others(self));
    if (!is_main(self) || PyErr_CheckSignals() == 0) continue;
    self->closing = 0;
    leave(self, FARLOOK_OK);
    return 0;
  }
  return 1;
}
